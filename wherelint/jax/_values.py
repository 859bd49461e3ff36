"""Where a value that is not finite was made."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from wherelint.companion import Poison, Report
from wherelint.jax._compat import ClosedJaxpr, JaxprEqn, Path
from wherelint.jax._host import Host
from wherelint.jax._tags import Origin, Site, site_of

#: So many operations are looked at that make such numbers; of most nothing is left at the end.
_MOST = 50


def explain_value(f: Callable[..., Sequence[Any]], inputs: Sequence[Any]) -> Report:
    """The report on results that are not finite: the first operation that made them so, of finite numbers.

    Without a finding where the inputs are not finite.
    """
    program = jax.make_jaxpr(f)(*inputs)
    for test in (np.isfinite, lambda x: ~np.isnan(x)):  # a nan may be made of infinities that are meant
        makers = _Makers(test)
        makers.of(program, inputs)
        for site, made in list(makers.made.items())[:_MOST]:
            if not _Makers(test, makers.made.keys() - {site}).of(program, inputs):
                return Report(False, False, False, (made,))
    return Report(False, False, False)


class _Makers(Host):
    """Notes the operations whose results do not pass a test although their operands do; some are given 1 instead."""

    def __init__(self, passes: Callable[[Any], Any], instead: Collection[Site] = ()) -> None:
        super().__init__()
        self._passes, self._instead = passes, instead
        self.made: dict[Site, Poison] = {}

    def of(self, program: ClosedJaxpr, inputs: Sequence[Any]) -> bool:
        """Whether the results are finite."""
        with np.errstate(all="ignore"):
            return all(np.isfinite(each).all() for each in self.run(program, inputs) if _is_real(each))

    def one(self, eqn: JaxprEqn, given: list[Any], path: Path) -> list[Any]:
        results, operands = super().one(eqn, given, path), [each for each in given if _is_real(each)]
        for i, result in enumerate(results):
            if not _is_real(result):
                continue
            bad = ~self._passes(np.asarray(result))
            for each in operands:
                passed = self._passes(each)
                bad &= passed if each.shape == bad.shape else passed.all()
            if bad.any():
                site = site_of((*path, eqn))
                if site not in self.made:
                    self.made[site] = self._poison(Origin(path, eqn, None), np.argwhere(bad))
                if site in self._instead:
                    results[i] = np.where(bad, 1, result)
        return results

    def _poison(self, origin: Origin, elements: Any) -> Poison:
        at, within = origin.places()
        first = tuple(map(int, elements[0]))
        return Poison(
            origin.op, at, index=first, iteration=tuple(self.rounds), count=len(elements), op_within=within, value=True
        )


def _is_real(array: Any) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))
