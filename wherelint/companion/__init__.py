"""What the runtime companions of the frameworks share: findings of a running program, and their text.

``wherelint.jax`` and ``wherelint.torch`` build these; nothing here imports a framework.
"""

from wherelint.companion.report import Place, Poison, PoisonedGradient, Report

__all__ = ["Place", "Poison", "PoisonedGradient", "Report"]
