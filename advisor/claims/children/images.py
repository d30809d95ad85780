"""JPEG images decoded and resized a second, through DALI's CPU pipeline, OpenCV or PIL, each with the same number of threads.

The images have the spectrum of natural ones (power falling with the square of the frequency, Field 1987), since noise or flat colour
would decode at another speed. Decoders may differ in rounding; the mean of each image must agree with the pixels it was made from.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from advisor.claims.children._answer import answer
from advisor.claims.children._timing import seconds

#: ImageNet's median size, and what networks take.
WIDTH, HEIGHT, SIDE, QUALITY = 500, 375, 224, 90
#: Grey levels by which the mean of an image may differ after JPEG and resizing.
TOLERANCE = 3.0


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return images a second of ``decoder`` (dali, opencv, pillow) on ``images`` files."""
    import numpy as np

    count, threads = int(arguments.get("images") or 64), int(arguments["threads"])
    with tempfile.TemporaryDirectory() as name:
        paths, means = write_images(Path(name), count, int(arguments["seed"]))
        decode = DECODERS[str(arguments["decoder"])](paths, threads)
        got = np.asarray(decode())
        worst = float(np.abs(got - means).max())
        if worst > TOLERANCE:
            raise RuntimeError(f"{arguments['decoder']}: the mean of an image is off by {worst:.1f} grey levels")
        taken = seconds(decode, threads=threads, budget_s=float(arguments.get("budget_s") or 3.0))
    detail = {"decoder": arguments["decoder"], "threads": threads, "images": count, "off_by": worst}
    return [{"label": f"JPEG {WIDTH} x {HEIGHT} to {SIDE} x {SIDE}", "value": count / taken, "detail": detail}]


def natural(rng: Any, width: int, height: int) -> Any:
    """Return an image (height, width, 3) of bytes whose power falls with the square of the frequency."""
    import numpy as np

    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1 / max(width, height)
    planes = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((3, height, width))) / frequency, s=(height, width))
    planes = 0.7 * planes.mean(0) + 0.3 * planes  # colours of natural images are alike
    return np.clip(128 + 50 * (planes - planes.mean()) / planes.std(), 0, 255).astype(np.uint8).transpose(1, 2, 0)


def write_images(folder: Path, count: int, seed: int) -> tuple[list[Path], Any]:
    """Write JPEG files and return their paths and the mean of each."""
    import numpy as np
    from PIL import Image

    rng, paths, means = np.random.default_rng(seed), [], []
    for index in range(count):
        pixels = natural(rng, WIDTH, HEIGHT)
        paths.append(folder / f"{index:04}.jpg")
        Image.fromarray(pixels).save(paths[-1], quality=QUALITY)
        means.append(float(pixels.mean()))
    return paths, np.array(means)


def _pooled(one: Callable[[Path], float], paths: list[Path], threads: int) -> Callable[[], list[float]]:
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(one, paths))


def _opencv(paths: list[Path], threads: int) -> Callable[[], list[float]]:
    import cv2

    cv2.setNumThreads(1)  # the pool holds the threads

    def one(path: Path) -> float:
        return float(cv2.resize(cv2.imread(str(path)), (SIDE, SIDE), interpolation=cv2.INTER_LINEAR).mean())

    return _pooled(one, paths, threads)


def _pillow(paths: list[Path], threads: int) -> Callable[[], list[float]]:
    import numpy as np
    from PIL import Image

    def one(path: Path) -> float:
        with Image.open(path) as image:
            return float(np.asarray(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)).mean())

    return _pooled(one, paths, threads)


def _dali(paths: list[Path], threads: int) -> Callable[[], list[float]]:
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=len(paths), num_threads=threads, device_id=None, prefetch_queue_depth=1)  # type: ignore[untyped-decorator]
    def decoded() -> Any:
        encoded, _ = fn.readers.file(files=[str(path) for path in paths])
        pixels = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
        return fn.resize(pixels, resize_x=SIDE, resize_y=SIDE, interp_type=types.INTERP_LINEAR)

    pipeline = decoded()
    pipeline.build()

    def run() -> list[float]:
        (batch,) = pipeline.run()
        return [float(batch.at(index).mean()) for index in range(len(paths))]

    return run


DECODERS = {"dali": _dali, "opencv": _opencv, "pillow": _pillow}

if __name__ == "__main__":
    answer(measure)
