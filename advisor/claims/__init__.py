"""What people claim about performance, each with the experiment that tests it and the verdict it comes to."""
