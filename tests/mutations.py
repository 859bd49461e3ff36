"""Programs of every syntax, made of real ones: trees are cut, swapped, spliced and wrapped, then the text is."""

from __future__ import annotations

import ast
import copy
import io
import random
import re
import tokenize
import warnings
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = sorted([*ROOT.glob("tests/fixtures/*.py"), *ROOT.glob("tests/cases/*/*safe.py"), *ROOT.glob("examples/*.py")])

#: Expressions around others, which take the places of A and B.
EXPRESSIONS = """
A if B else 0.0 $ B if A > 0 else A $ (lambda A: A)(B) $ (lambda *a, k=A, **o: k)(B) $ (named := A) $ [A, B][0]
[A for i in B if i] $ {A for i in range(3)} $ {i: A for i in B} $ sum(A for i in B for j in i if j if A) $ (A, B)
{A: B, **{}} $ {A, B} $ [*A, B] $ f"{A!r:>{10}} {B:.2f} {{}}" $ A and B or not A $ A < B <= 1 $ A is not B
A not in B
A == B >= 1 $ A is B in A $ t"{A:{B}}" $ A != B
A[B] $ A[0] $ A[..., None] $ A[1:, ::2] $ A[B > 0] $ A[:, B] $ A.at[B].set(0.0) $ A.T $ A.mean(0).sum(-1) $ A @ B
-A $ ~A
+A $ A // B $ A % B $ A ** B $ A << 1 $ A >> 1 $ A | B $ A ^ B $ A & B $ f(A, *B) $ f(x=A, **B) $ f(A, f(B)) $ A(B)
A()
None $ ... $ True $ b"" "" $ 1j * A $ 1e400 $ -0.0 $ 10**400 $ 1_000 $ "where" $ (yield A) $ (yield from A)
(await A)
isinstance(A, float) $ getattr(A, "where")(B) $ map(f, A) $ zip(A, B) $ max(A, B) $ abs(A) $ float(A) $ len(A)
range(A)
jnp.where(A > 0, B, 0.0) $ jnp.where(A) $ jnp.sqrt(A) $ 1.0 / A $ jnp.nan_to_num(A)
torch.where(A != 0, A.log(), B)
tf.where(A > 0, 1 / A, B) $ tf.cond(A > 0, lambda: A, lambda: B) $ jax.lax.cond(A, f, f, B) $ jax.vmap(f, B)(A)
jax.grad(f)(A) $ jax.lax.scan(f, A, B) $ jax.lax.fori_loop(0, 3, lambda i, c: A, B) $ functools.partial(f, A)(B)
jnp.einsum("i,i->", A, B) $ jnp.select([A > 0], [B], 0.0) $ jnp.clip(A, B, None) $ A.masked_fill(B, 0.0)
A.reshape(-1, B)
jnp.array([A, B]) $ jnp.concatenate([A, B]) $ torch.stack((A, B), dim=0) $ jnp.linalg.norm(A, axis=B)
jnp.stack(A)
[i async for i in A] $ A.x.y $ A[B][A] $ A[*B] $ super().__init__(A) $ type(A)(B) $ print(A) $ (A)(*A, **B)
"""
#: Statements around others: S is one or more, N a name.
STATEMENTS = """
N = A $ N = M = A $ N, *M = A, B $ (N, M), [O] = A $ N.attribute = A $ N[A] = B $ N[A:B] = A $ N: float = A
N: "A" $ del N
N += A $ N -= A $ N *= A $ N /= A $ N //= A $ N **= A $ N %= A $ N @= A $ N &= A $ N ^= A $ N <<= A $ N >>= A
N[A] *= B
assert A, B $ raise A from B $ raise $ return A $ return $ global N $ nonlocal N $ pass $ import N.M as O $ A
from N import M as O $ from . import N $ from N import * $ import jax, torch, tensorflow as tf $ continue $ break
for N in A:¶    S $ for N, M in A:¶    S¶else:¶    S $ for N in range(3):¶    S¶    break $ while A:¶    S
while True:¶    S¶    if A:¶        break¶else:¶    S $ if A:¶    S $ if A:¶    S¶elif B:¶    S¶else:¶    S
with A as N, B:¶    S $ with A:¶    S $ try:¶    S¶except (A, B) as N:¶    S¶else:¶    S¶finally:¶    S
try:¶    S¶finally:¶    return A $ def N(M, /, O=A, *a, k: B = A, **o) -> A:¶    S
def N(M, O):¶    S¶    return M / O
async def N(M):¶    async for O in A:¶        S¶    async with A as M:¶        S¶    return await B
@A¶def N():¶    S
class N(A, metaclass=B):¶    M: float = A¶    def O(self, N):¶        S¶        return self.M $ class N:¶    S
match A:¶    case [N, *M] if B:¶        S¶    case {"a": N, **M} | None:¶        S¶    case _:¶        S
match A, B:¶    case (0 | -1.0 | "a" as N, O.P):¶        S¶    case float(x=M) | int(M):¶        S
lambda: (yield A) $ type N[T] = A $ def N[T: A, *Ts, **P](M: T) -> T:¶    S $ class N[T]:¶    S $ global N; N = A
try:¶    S¶except* A as N:¶    S $ @jax.custom_jvp¶def N(M):¶    return A $ N.defjvp(lambda p, t: (A, B))
@property¶def N(self):¶    S
@jax.jit¶def N(M):¶    return A $ N = jax.jit(lambda M: A) $ N = functools.partial(N, A) $ N = lambda M: N(A)
"""
_CONSTANTS = [0, 1, -1, 2, 0.5, 0.0, 1e-12, 1e400, 10**400, 1j, "x", b"x", None, True, ..., "a\nb", 2**63, 1e-320]
_BINARY = [ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult, ast.BitAnd, ast.BitOr]
_COMPARE = [ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn]
_COMMENTS = """
# noqa |# NOQA:WL101|# noqa: WL1, WL2 # noqa: WL999|#noqa:|# noqa : WL103,E501 why|# type: ignore # noqa: WL101
# wherelint: noqa|# wherelint: noqa: WL1|# noqa: WL101WL102|# noqa:\tWL2|#: noqa: wl103|# é noqa: WL103|# noqa\\
"# noqa: WL1"|; # noqa: WL1;|# noqa: WL103, |## noqa: WL204|# noqa: WL001
"""
#: Comments that silence something, and some that only look like it.
COMMENTS = [comment for line in _COMMENTS.strip("\n").split("\n") for comment in line.split("|") if comment]
_TEXTS = [
    "\\\n",
    "\x0c",
    "\t",
    "\r",
    "\r\n",
    "\ufeff",
    "é",
    "数",
    "\x00",
    "'''",
    '"',
    "(",
    ")",
    ":",
    ";",
    "\n\n",
    "#",
    "0_",
    "…",
]


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


@cache
def texts() -> list[str]:
    """The files that everything is made of."""
    return [path.read_text("utf-8") for path in FILES]


@cache
def _trees() -> list[ast.Module]:
    return [_parsed(text) for text in texts()]


@cache
def _pool(kind: type) -> list[ast.AST]:
    """Every node of a kind in the files, as they are written there."""
    return [node for tree in _trees() for node in ast.walk(tree) if isinstance(node, kind)]


@cache
def _names() -> tuple[list[str], list[str]]:
    """The names of variables and of attributes that the files use."""
    return (
        sorted({node.id for node in _pool(ast.Name)}),  # type: ignore[attr-defined]
        sorted({node.attr for node in _pool(ast.Attribute)}),  # type: ignore[attr-defined]
    )


@cache
def templates(text: str) -> list[ast.stmt]:
    """The statements of a table that this Python knows."""
    found = []
    for line in text.strip().splitlines():
        for source in line.split(" $ "):
            try:
                found += _parsed(source.replace("¶", "\n")).body[:1]
            except SyntaxError:
                continue
    return found


class _Fill(ast.NodeTransformer):
    """Puts statements and expressions into a template."""

    def __init__(self, rng: random.Random, expressions: dict[str, ast.expr], body: list[ast.stmt]) -> None:
        self.expressions = expressions
        self.body = body
        self.names = {name: rng.choice(["x", "y", "f", "out", *_names()[0]]) for name in "NMO"}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.expressions:
            return copy.deepcopy(self.expressions[node.id])
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        if isinstance(node.value, ast.Name) and node.value.id == "S":
            return copy.deepcopy(self.body)
        return self.generic_visit(node)  # type: ignore[return-value]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("name", "arg", "rest", "asname"):
            if getattr(node, field, None) in self.names:
                setattr(node, field, self.names[getattr(node, field)])
        if isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [self.names.get(name, name) for name in node.names]
        return super().generic_visit(node)


class Mutator:
    """Makes one program after another, the same for the same ``rng``."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def program(self) -> str:
        """A program: usually one that parses."""
        rng = self.rng
        if rng.random() < 0.15:
            text = rng.choice(texts()[: len(texts())])  # as it is written, comments and all
            lines = text.splitlines(keepends=True)
            if len(lines) > 60:
                start = rng.randrange(len(lines) - 30)
                text = "".join([*lines[:12], *lines[start : start + 30]])
        else:
            text = self._unparsed(self._tree())
        for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
            text = self._edited(text)
        return text

    def _tree(self) -> ast.Module:
        rng = self.rng
        tree = ast.Module([], [])
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            body = rng.choice(_trees()).body
            imports = [s for s in body if isinstance(s, ast.Import | ast.ImportFrom)]
            others = [s for s in body if s not in imports]
            start = rng.randrange(max(1, len(others) - 2))
            tree.body += copy.deepcopy([*imports, *others[start : start + 3]])
        mutations = [self._replace, self._replace, self._swap, self._delete, self._repeat, self._wrap, self._wrap,
                     self._enclose, self._insert, self._rename, self._rename, self._constant, self._operator,
                     self._arguments, self._attribute, self._parameters, self._decorate]  # fmt: skip
        for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4, 8])):
            rng.choice(mutations)(tree)
        return tree

    def _unparsed(self, tree: ast.Module) -> str:
        for _ in range(3):
            try:
                return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
            except (ValueError, AttributeError, TypeError, RecursionError):  # no tree of Python any more
                tree = self._tree()
        return "import jax\n"

    def _slots(self, tree: ast.AST, kind: type) -> list[tuple[ast.AST, str, int | None, ast.AST]]:
        """Every place of the tree that holds a node of a kind: its parent, the field, the index there, the node."""
        found: list[tuple[ast.AST, str, int | None, ast.AST]] = []
        for parent in ast.walk(tree):
            for field, value in ast.iter_fields(parent):
                items = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
                found += [(parent, field, index, node) for index, node in items if isinstance(node, kind)]
        return found

    def _slot(self, tree: ast.AST, kind: type) -> tuple[ast.AST, str, int | None, ast.AST] | None:
        slots = self._slots(tree, kind)
        return self.rng.choice(slots) if slots else None

    def _expression(self) -> ast.expr:
        return copy.deepcopy(self.rng.choice(_pool(ast.expr)))  # type: ignore[arg-type]

    def _filled(self, table: str, first: ast.expr, body: list[ast.stmt]) -> ast.stmt:
        template = copy.deepcopy(self.rng.choice(templates(table)))
        fill = _Fill(self.rng, {"A": first, "B": self._expression()}, body)
        return fill.visit(template)  # type: ignore[no-any-return]

    def _replace(self, tree: ast.AST) -> None:
        kind = self.rng.choice([ast.expr, ast.expr, ast.stmt])
        if slot := self._slot(tree, kind):
            _put(slot, copy.deepcopy(self.rng.choice(_pool(kind))))

    def _swap(self, tree: ast.AST) -> None:
        kind = self.rng.choice([ast.expr, ast.stmt])
        one, other = self._slot(tree, kind), self._slot(tree, kind)
        if one and other:
            first, second = copy.deepcopy(one[3]), copy.deepcopy(other[3])
            _put(one, second)
            _put(other, first)

    def _delete(self, tree: ast.AST) -> None:
        if slot := self._slot(tree, self.rng.choice([ast.stmt, ast.stmt, ast.expr, ast.arg, ast.keyword])):
            parent, field, index, node = slot
            if index is not None:
                del getattr(parent, field)[index]
                if not getattr(parent, field) and isinstance(node, ast.stmt):
                    setattr(parent, field, [ast.Pass()])

    def _repeat(self, tree: ast.AST) -> None:
        if slot := self._slot(tree, self.rng.choice([ast.stmt, ast.stmt, ast.expr, ast.keyword])):
            parent, field, index, node = slot
            if index is not None:
                getattr(parent, field).insert(self.rng.randrange(index + 1), copy.deepcopy(node))

    def _wrap(self, tree: ast.AST) -> None:
        if slot := self._slot(tree, ast.expr):
            made = self._filled(EXPRESSIONS, slot[3], [])  # type: ignore[arg-type]
            if isinstance(made, ast.Expr):
                _put(slot, made.value)

    def _enclose(self, tree: ast.AST) -> None:
        if slot := self._slot(tree, ast.stmt):
            parent, field, index, _ = slot
            body = getattr(parent, field)
            last = min(len(body), (index or 0) + self.rng.choice([1, 1, 2, 9]))
            body[index:last] = [self._filled(STATEMENTS, self._known(tree), body[index:last])]

    def _insert(self, tree: ast.AST) -> None:
        if slot := self._slot(tree, ast.stmt):
            parent, field, index, _ = slot
            getattr(parent, field).insert(index, self._filled(STATEMENTS, self._known(tree), [ast.Pass()]))

    def _known(self, tree: ast.AST) -> ast.expr:
        """An expression of the tree itself, whose names mean something there."""
        slot = self._slot(tree, ast.expr)
        return copy.deepcopy(slot[3]) if slot else self._expression()  # type: ignore[return-value]

    def _rename(self, tree: ast.AST) -> None:
        """Another name of the program, at one place or everywhere: names collide, functions call themselves."""
        names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
        names += [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        if not names:
            return
        old, new = self.rng.choice(names), self.rng.choice(names)
        everywhere = self.rng.random() < 0.5
        for node in ast.walk(tree):
            for field in ("id", "arg", "name"):
                if getattr(node, field, None) == old and (everywhere or self.rng.random() < 0.3):
                    setattr(node, field, new)

    def _constant(self, tree: ast.AST) -> None:
        if slot := self._slot(tree, ast.Constant):
            _put(slot, ast.Constant(self.rng.choice(_CONSTANTS)))

    def _operator(self, tree: ast.AST) -> None:
        if slot := self._slot(tree, ast.operator if self.rng.random() < 0.7 else ast.cmpop):
            _put(slot, self.rng.choice(_BINARY if isinstance(slot[3], ast.operator) else _COMPARE)())

    def _arguments(self, tree: ast.AST) -> None:
        if slot := self._slot(tree, ast.Call):
            call = slot[3]
            assert isinstance(call, ast.Call)
            other = copy.deepcopy(self.rng.choice(_pool(ast.Call)))
            assert isinstance(other, ast.Call)
            match self.rng.randrange(6):
                case 0:
                    call.args = other.args
                case 1:
                    call.keywords += other.keywords
                case 2:
                    names = ["axis", "dim", "where", "out", "x", "y", "condition", "input", "keepdims", "initial"]
                    call.keywords += [ast.keyword(self.rng.choice(names), arg) for arg in call.args[-1:]]
                    call.args = call.args[:-1]
                case 3:
                    call.args = [ast.Starred(ast.Tuple(call.args, ast.Load()), ast.Load())]
                case 4:
                    call.func = other.func
                case _:
                    self.rng.shuffle(call.args)

    def _attribute(self, tree: ast.AST) -> None:
        if slot := self._slot(tree, ast.Attribute):
            slot[3].attr = self.rng.choice(_names()[1])  # type: ignore[attr-defined]

    def _parameters(self, tree: ast.AST) -> None:
        if slot := self._slot(tree, ast.arguments):
            arguments = slot[3]
            assert isinstance(arguments, ast.arguments)
            match self.rng.randrange(4):
                case 0:
                    arguments.kwonlyargs, arguments.args = arguments.kwonlyargs + arguments.args, []
                    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
                    arguments.defaults = []
                case 1:
                    arguments.posonlyargs, arguments.args = arguments.posonlyargs + arguments.args, []
                case 2:
                    arguments.vararg = ast.arg(self.rng.choice(_names()[0]))
                case _:
                    arguments.defaults = [self._known(tree) for _ in arguments.args[:2]]

    def _decorate(self, tree: ast.AST) -> None:
        if slot := self._slot(tree, ast.FunctionDef):
            owners = [n for n in _pool(ast.FunctionDef) if n.decorator_list]  # type: ignore[attr-defined]
            slot[3].decorator_list = copy.deepcopy(self.rng.choice(owners).decorator_list)  # type: ignore[attr-defined]

    def _edited(self, text: str) -> str:
        """A text as it looks while somebody types, or as no formatter leaves it."""
        rng = self.rng
        lines = text.split("\n")
        row = rng.randrange(len(lines))
        match rng.randrange(10):
            case 0 | 1 | 2 | 3:
                lines[row] += "  " + rng.choice(COMMENTS)
                return "\n".join(lines)
            case 4:
                return text[: rng.randrange(len(text) + 1)]
            case 5:
                at = rng.randrange(len(text) + 1)
                return text[:at] + rng.choice(_TEXTS) + text[at:]
            case 6:
                return text.replace("\n", rng.choice(["\r\n", "\r", "\n\n", "\n# x\n", "  \n"]))
            case 7:
                indent = rng.choice(["\t", "  ", " "])
                return re.sub(r"^(    )+", lambda m: indent * (len(m[0]) // 4), text, flags=re.MULTILINE)
            case 8:
                return self._without_token(text)
            case _:
                # What stands in brackets may be broken anywhere.
                return re.sub(r", ", lambda m: rng.choice([", ", ",\n        ", ",  # noqa: WL1\n  "]), text)

    def _without_token(self, text: str) -> str:
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (tokenize.TokenError, SyntaxError):
            return text
        spans = [t for t in tokens if t.string.strip() and t.start[0] == t.end[0]]
        if not spans:
            return text
        token = self.rng.choice(spans)
        lines = text.splitlines(keepends=True)
        line = lines[token.start[0] - 1]
        lines[token.start[0] - 1] = line[: token.start[1]] + line[token.end[1] :]
        return "".join(lines)


def _put(slot: tuple[ast.AST, str, int | None, ast.AST], node: ast.AST) -> None:
    parent, field, index, old = slot
    if isinstance(getattr(old, "ctx", None), ast.Store | ast.Del) and not hasattr(node, "ctx"):
        return  # nothing else can be assigned to
    if index is None:
        setattr(parent, field, node)
    elif index < len(getattr(parent, field)):
        getattr(parent, field)[index] = node
