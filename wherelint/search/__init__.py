"""The witness search: an input at which the value is finite, the gradient is not, and a dropped arm is why.

``probes`` says which inputs to try, ``bisect`` closes in on singular points, a ``batch`` is what some probes give,
``attribution`` names the operation and the selection, ``witness`` puts these together, ``whole_program`` asks whether a
hazard is a bug of the function around it, and ``simplify`` makes numbers fit to print. ``prune`` and ``budget`` bound
the work. Nothing here knows what a hazard is worth: a judge does (``prune.Judge``).
"""
