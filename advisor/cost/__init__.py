"""The cost model: time, memory, communication, energy, uncertainty. Pure: reads no file, prints nothing, knows no clock.

``price(model, workload, platform, plans, calibration)`` is the one entry: it prices a whole PlanTable at once.
"""
