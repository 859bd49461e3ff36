"""What speaks for a finding and against it, and what it is worth with that.

``pieces`` has every piece of evidence, its weight and its sentence. Three questions decide: did the author guard it
(``condition``), can the input occur (``witness``), does a gradient flow there (``gradient_flow``, with ``names`` and
``callers``)? ``judge`` tells the witness search which hazards are worth looking for.
"""
