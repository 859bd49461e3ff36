"""Whether a hazard of a selection is a bug of the function that it stands in."""

from __future__ import annotations

import numpy as np

from wherelint.frontend.options import Budget
from wherelint.graph.differentiate import Backward, Tape, backward
from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import LANES, Node, inputs_in, reading, topological
from wherelint.interpret.programs import Program
from wherelint.ops import Array
from wherelint.search.batch import Run, at, keep
from wherelint.search.probes import Inputs
from wherelint.search.witness import Hazard


class InProgram:
    """Whether a hazard is a bug of the whole program, not just of the selection.

    Something finite, or the infinity that the author wrote, has to leave the function at the witness, and only the zero
    may break the operation's cotangent: a program that is nan there anyway loses nothing, and one that uses the
    operation outside of the selection too is singular in earnest.
    """

    def __init__(self, program: Program, arithmetic: str, budget: Budget) -> None:
        self._program = program
        self._arithmetic = arithmetic
        self._budget = budget
        self._outlets: dict[Node, list[tuple[Node, list[Node], Tape]]] = {}
        self._whole: dict[Node, tuple[Node, list[Node], Tape]] = {}
        self._paths: dict[tuple[Node, Node], Tape] = {}
        self._reached: dict[tuple[Node, Node], bool] = {}
        self._still: dict[tuple[Node, frozenset[Node], bool], tuple[list[Node], Values]] = {}
        #: All witnesses of a run are judged at once: their inputs, which is which, and what they give.
        self._run: Run | None = None
        self._inputs: Inputs = {}
        self._place: dict[int, int] = {}
        self._computed: dict[tuple[Node, bool], Values] = {}
        self._passes: dict[tuple[Node, bool, Node, Node | None, bool], Backward] = {}
        #: What the flags of the program are that no witness moves.
        self._flags = True

    def forget(self) -> None:
        """Keep nothing that takes much memory and can be computed again."""
        self._run, self._inputs, self._place = None, {}, {}
        self._still.clear()
        self._computed.clear()
        self._passes.clear()

    def __call__(self, hazard: Hazard, run: Run, p: int) -> bool:
        outlets = self._outlets_of(hazard.select)
        if not outlets:
            return True
        if run is not self._run:
            self._run, self._inputs = run, keep(run.witness, run.inputs)
            self._place = {each: i for i, each in enumerate(np.flatnonzero(run.witness).tolist())}
            self._computed.clear()
            self._passes.clear()
        for self._flags in (True, False):
            if self._is_bug(hazard, outlets, self._place[p]):
                return True
            if not any(n.kind == "bool" and n not in self._inputs for _, order, _ in outlets for n in inputs_in(order)):
                break
        return False

    def _is_bug(self, hazard: Hazard, outlets: list[tuple[Node, list[Node], Tape]], p: int) -> bool:
        values = self._values(hazard.select)
        below_a_clip = hazard.select in topological([hazard.op])
        is_finite = all(np.isfinite(v).all() for v in hazard.inputs.values())
        written = np.isinf(at(values[hazard.select], p)) & is_finite  # by the arm that is taken, not by the data
        for output, order, tape in outlets:
            value = at(values[output], p)
            if not (np.isfinite(value) | (np.isinf(value) & written)).all():
                continue
            path = self._path(output, order, tape, hazard.op)
            if below_a_clip and self._idle(hazard, output, path, p):
                continue
            rest = self._pass(hazard, output, path, hazard.op)
            # What else uses the operation may hand it a zero, too, as ``cos(norm(x))`` does: its author met the point.
            broke = rest.broke.get(hazard.op)
            whole = broke is None or not (at(broke, p) & (at(rest.cotangents[hazard.op], p) != 0)).any()
            if whole and self._reaches(output, order, tape, values, hazard.select):
                return True
            # Below a clip the operation is singular in earnest; it is the clip that has to hold the gradient back.
            if below_a_clip:
                cts = self._pass(hazard, output, tape, None).cotangents
                finite = {n: np.isfinite(at(cts[n], p)) for n in hazard.gradient if n in cts}
                if any((now & ~np.isfinite(hazard.gradient[n])).any() for n, now in finite.items()):
                    return True
        return False

    def _values(self, select: Node) -> Values:
        """What the program computes at the witnesses; inputs that a selection does not read are generic."""
        if (select, self._flags) not in self._computed:
            key = select, frozenset(self._inputs), self._flags
            if key not in self._still:
                order = topological(output for output, _, _ in self._outlets_of(select))
                moved = reading(order, self._inputs)
                fixed = [n for n in order if n.op == "leaf" and n not in moved]
                benign = {n: _generic(n, place, self._flags) for place, n in enumerate(fixed)}
                still = evaluate((n for n in order if n not in moved), benign)
                self._still[key] = [n for n in order if n in moved], still
            order, still = self._still[key]
            self._computed[select, self._flags] = evaluate(order, self._inputs, known=still)
        return self._computed[select, self._flags]

    def _pass(self, hazard: Hazard, output: Node, tape: Tape, to: Node | None, symbolic: bool = True) -> Backward:
        """A reverse pass from an outlet to an operation, or to all inputs."""
        key = hazard.select, self._flags, output, to, symbolic
        if key not in self._passes:
            values = self._computed[hazard.select, self._flags]
            self._passes[key] = backward(tape, values, output, self._arithmetic, symbolic=symbolic)
        return self._passes[key]

    def _idle(self, hazard: Hazard, output: Node, path: Tape, p: int) -> bool:
        """Whether nothing flows back to an operation, since an ``if`` or ``lax.cond`` took the arm without it."""
        if not any(node.op == "cond" for node, _ in path.steps):
            return False
        dead = self._pass(hazard, output, path, hazard.op, symbolic=False).dead.get(hazard.op)
        return dead is not None and bool(at(dead, p).all())

    def _path(self, output: Node, order: list[Node], tape: Tape, op: Node) -> Tape:
        """The part of a reverse pass from an outlet that leads to an operation and its operands."""
        if (output, op) not in self._paths:
            above = reading((n for n in order if n in tape.requires_grad), [op])
            flowing = above.union(op.inputs).intersection(tape.requires_grad)
            self._paths[output, op] = Tape([n for n in order if n in above], flowing)
        return self._paths[output, op]

    def _reaches(self, output: Node, order: list[Node], tape: Tape, values: Values, select: Node) -> bool:
        """Whether a selection receives a cotangent from an outlet: `floor` and the like hand nothing on."""
        if (output, select) not in self._reached:
            path = self._path(output, order, tape, select)
            found = backward(path, values, output, self._arithmetic, symbolic=True).cotangents
            self._reached[output, select] = select in found or select not in tape.requires_grad
        return self._reached[output, select]

    def _outlets_of(self, select: Node) -> list[tuple[Node, list[Node], Tape]]:
        """The values leaving the function that read a selection, each with what it reads."""
        if select not in self._outlets:
            above = reading(self._program.order, [select])
            outputs = [s for s in self._program.outputs if s.kind == "float" and s in above]
            if (left := len(outputs) - self._budget.results) > 0:
                what = f"{left} result{'s' * (left > 1)} of `{self._program.name}`"
                self._budget.give_up(what, "it has too many")
            del outputs[self._budget.results :]
            self._outlets[select] = [self._outlet(s) for s in outputs]
        return self._outlets[select]

    def _outlet(self, output: Node) -> tuple[Node, list[Node], Tape]:
        """A value that leaves the function, what it reads, and a reverse pass through all of that."""
        if output not in self._whole:
            order = topological([output])
            self._whole[output] = output, order, Tape(order)
        return self._whole[output]


def _generic(leaf: Node, place: int, flags: bool) -> Array:
    """Benign values for an input, no two alike: ``x - mean(x)`` and ``a - b`` are not 0 in every element."""
    if leaf.kind != "float":
        return np.full((1, 1), flags if leaf.kind == "bool" else np.float32(2 + place % 3))
    steps = np.arange(LANES * place + 1, LANES * (place + 1) + 1)[None]
    return (0.5 + 0.618034 * steps % 1 / 2).astype(np.float32)
