"""Which functions can bring a singular operation to a selection, judged by ``ast`` alone.

A screen of whole functions: most need not be lowered. A name stands for everything that is ever bound to it, whatever
the path and the order, and a function is read once, whoever calls it. That errs on the side of reading too much. What
is not seen is what is handed on otherwise than by a name or an attribute of ``self``: through other objects.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

from wherelint.frameworks import framework_of
from wherelint.frontend.module import MOST_HOPS, Module, bases
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, below, children
from wherelint.ops import words
from wherelint.ops.traits import BRANCHING, CLIPS, FINITE_TESTS, INDEXING, SELECTING, SELECTS, SINGULAR, TO_BOOL

#: What is known of a value, as bits. It has a singular operation above it, or a clip; it is made of booleans; it tells
#: what is finite; it is no constant; it depends on what the function is given.
_SINGULAR, _CLIPPED, _BOOLEAN, _TELLS, _VARIES, _GIVEN = (1 << i for i in range(6))
#: And of a function: it selects from what it is given, it has a singular operation of that.
_SELECTS, _DIVIDES = 1 << 6, 1 << 7
#: It is the number inf or nan, so that a comparison with it tells what is finite.
_INFINITE = 1 << 8

_SINGULAR_WORDS = words(SINGULAR) | {"average", "fftfreq", "rfftfreq"}
_TEST_WORDS, _BOOLEAN_WORDS = words(FINITE_TESTS), words(TO_BOOL)
_REPLACING_WORDS = frozenset("nan_to_num nan_to_num_ nansum nanmean nanmax nanmin".split())
#: Arrays with zeros.
_MASK_WORDS = frozenset("eye identity tri one_hot".split())
_WRITING = frozenset("set triu tril fill_diagonal fill_diagonal_".split())
_CLIP_WORDS = words({name for name, kind in SELECTS.items() if kind in CLIPS})
_SELECT_WORDS = words(SELECTS) | SELECTING | _CLIP_WORDS | {*INDEXING, *BRANCHING} | _WRITING
_PRODUCT_WORDS = words({"multiply"})
#: Divisions by the last operand alone.
_QUOTIENT_WORDS = frozenset("div divide true_divide truediv div_ mod remainder fmod".split())
#: What no derivative flows through, and what says nothing of the elements.
_SEVERING_WORDS = frozenset("stop_gradient detach detach_ item numpy tolist".split())
_SIZES = frozenset("shape ndim size len range".split())
_DESCRIPTIONS = frozenset("dtype device isinstance hasattr str".split())
_INFINITIES = frozenset("inf infty Inf nan NaN NINF".split())
#: What puts values into a container.
_COLLECTING = frozenset("append extend insert update add setdefault".split())

_Class: TypeAlias = tuple[Module, ast.ClassDef]


def meets(module: Module, cls: ast.ClassDef | None, home: Module, function: ast.AST) -> bool:
    """Whether a singular operation can reach a selection in a function that stands in the file ``home``.

    ``cls``: the class of the file ``module`` that it is a method of.
    """
    flow: Flow = module.once(Flow)
    try:
        return flow.read(home, (module, cls) if cls is not None else None, function).meets
    except RecursionError:
        return True  # who reads it says that it is nested too deeply


class Flow:
    """What is known of the functions and the classes that a file leads to."""

    def __init__(self, module: Module) -> None:
        self._readers: dict[ast.AST, _Reader] = {}
        self._classes: dict[ast.ClassDef, _Members] = {}
        self._values: dict[ast.AST, int] = {}

    def read(self, home: Module, cls: _Class | None, function: ast.AST) -> _Reader:
        """A function as it was read; as far as it was, where it leads back to itself."""
        if cls is not None:
            if cls[1] not in self._classes:
                self._classes[cls[1]] = _Members(self, *cls)
            return self._classes[cls[1]].read(home, function)
        if function not in self._readers:
            self._readers[function] = _Reader(self, home, None, function)
            self._readers[function].settle()
        return self._readers[function]

    def value(self, home: Module, statement: ast.stmt) -> int:
        """What a name of the top level stands for: a function, a class by the words in it, a constant."""
        if statement not in self._values:
            self._values[statement] = 0
            if isinstance(statement, ast.ClassDef):
                found = reduce(or_, (_of_class(*each) for each in [(home, statement), *bases(home, statement)]))
            else:
                found = self.read(home, None, statement).value
                found |= 0 if isinstance(statement, FUNCTION_DEFS) else _BOOLEAN
            self._values[statement] = found
        return self._values[statement]


class _Members:
    """The methods of a class and of its bases, each read when it is asked for, and the attributes that they share."""

    def __init__(self, flow: Flow, module: Module, statement: ast.ClassDef) -> None:
        self._flow = flow
        #: What may be behind a name: the methods that are called so, or that assign it.
        self._behind: dict[str, list[tuple[Module, FunctionDef]]] = {}
        self._readers: dict[ast.AST, _Reader] = {}
        #: The facts of attributes and of methods, and the names that were asked for.
        self._values: dict[str, int] = {}
        self._asked: set[str] = set()
        self._changed = False
        for home, cls in [(module, statement), *bases(module, statement)]:
            block = home.definitions[cls.name].block
            inside = below(cls.body, but=(*FUNCTION_DEFS, ast.ClassDef))
            for method in (each for each in inside if isinstance(each, FUNCTION_DEFS)):
                for name in (method.name, *block.chunk.once(_assigned, method)):
                    self._behind.setdefault(name, []).append((home, method))

    def read(self, home: Module, function: ast.AST) -> _Reader:
        """A method as it was read, once nothing more is learned of those that were."""
        found = self._read(home, function)
        while self._changed:
            self._changed = False
            for reader in list(self._readers.values()):
                reader.settle()
        return found

    def _read(self, home: Module, function: ast.AST) -> _Reader:
        if function not in self._readers:
            self._readers[function] = _Reader(self._flow, home, self, function)
            self._readers[function].settle()
        return self._readers[function]

    def note(self, name: str, facts: int) -> None:
        """What is assigned to an attribute, or what a method is."""
        known = self._values.get(name, 0)
        self._values[name] = known | facts & ~_GIVEN
        self._changed |= self._values[name] != known and name in self._asked

    def value(self, name: str) -> int:
        """What an attribute stands for, as far as that is known."""
        if name not in self._asked:
            for home, method in self._behind.get(name, ()):
                self._read(home, method)
            self._asked.add(name)
        return self._values.get(name, 0) | _VARIES


def _assigned(method: FunctionDef) -> set[str]:
    """The attributes that a method assigns to."""
    found = (n for n in below([method]) if isinstance(n, ast.Attribute))
    return {n.attr for n in found if isinstance(n.ctx, ast.Store)}


class _Reader:
    """One function: the facts of its names, until they no longer change."""

    def __init__(self, flow: Flow, home: Module, members: _Members | None, function: Any) -> None:
        self._flow, self._home, self._members = flow, home, members
        #: Whether a singular operation meets a selection; what is known of the function and of what it returns.
        self.meets, self.value = False, 0
        #: The parameters of functions inside, and what these are called with.
        self._inner: set[str] = set()
        #: The methods of classes inside.
        self._methods: set[str] = set()
        self._handed = _VARIES | _GIVEN
        #: The names that were read, and whether one of them has got more facts since.
        self._asked: set[str] = set()
        self._changed = False
        body = getattr(function, "body", function)
        self._body: list[ast.AST] = body if isinstance(body, list) else [body]
        names = _parameters(function.args) if hasattr(function, "args") else []
        is_static = any(_is_name(each, "staticmethod") for each in getattr(function, "decorator_list", ()))
        self._receiver = names[0] if members is not None and names and not is_static else None
        self._names = {name: _VARIES if name == self._receiver else _VARIES | _GIVEN for name in names}
        self._method = function.name if members is not None else None

    def settle(self) -> None:
        """Read the function until nothing more is learned."""
        self._changed = True
        while self._changed:
            self._changed = False
            self._statements(self._body)
        if self._members is not None and self._method:
            self._members.note(self._method, self.value)

    def _add(self, facts: int) -> None:
        self.value |= facts  # `self.value |= self.of(node)` would lose what is learned on the way

    def _statements(self, body: Iterable[ast.AST]) -> None:
        for each in body:
            handler = _STATEMENTS.get(type(each))
            if handler is not None:
                handler(self, each)
            elif isinstance(each, ast.expr):
                self._add(self.of(each))  # the body of a lambda
            else:
                self._statements(children(each))

    def _note(self, name: str, facts: int) -> None:
        known = self._names.get(name)
        if known is None or facts | known != known:
            self._names[name] = facts | (known or 0)
            self._changed |= name in self._asked

    def _assign(self, node: ast.Assign) -> None:
        value = node.value
        for target in node.targets:
            if isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple) and len(value.elts) == len(target.elts):
                for one, other in zip(target.elts, value.elts, strict=True):
                    self._bind(one, self.of(other))
            else:
                self._bind(target, self.of(value))
        if node is self._body[0]:  # a constant of the file
            self._add(self.of(value))

    def _assign_one(self, node: ast.AnnAssign | ast.NamedExpr) -> int:
        facts = 0 if node.value is None else self.of(node.value)
        self._bind(node.target, facts)
        return facts

    def _augment(self, node: ast.AugAssign) -> None:
        self._bind(node.target, self._operator(node.op, self.of(node.target), node.target, node.value))

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            self._add(self.of(node.value) & ~_GIVEN)

    def _for(self, node: ast.For | ast.comprehension) -> None:
        self._bind(node.target, self.of(node.iter))
        self._statements(node.ifs if isinstance(node, ast.comprehension) else [*node.body, *node.orelse])

    def _if(self, node: ast.If | ast.While) -> None:
        self.of(node.test)
        self._statements(node.body)
        self._statements(node.orelse)

    def _expression(self, node: ast.Expr) -> None:
        self.of(node.value)

    def _with(self, node: ast.withitem) -> None:
        facts = self.of(node.context_expr)
        if node.optional_vars is not None:
            self._bind(node.optional_vars, facts)

    def _function(self, node: FunctionDef) -> None:
        self._inner.update(_parameters(node.args))
        before, self.value = self.value, self._names.get(node.name, 0)
        self._statements(node.body)
        made, self.value = self.value, before | self.value & (_SELECTS | _DIVIDES)
        self._note(node.name, made | _VARIES)

    def _class(self, node: ast.ClassDef) -> None:
        """A class inside: its methods are known by their names, whatever object they are called on."""
        self._statements(node.body)
        named = (n for n in below(node.body, but=FUNCTION_DEFS) if isinstance(n, FUNCTION_DEFS))
        own = {each.name for each in named}
        self._methods |= own
        self._note(node.name, reduce(or_, (self._names.get(name, 0) for name in own), _VARIES))

    def _bind(self, target: ast.expr, facts: int) -> None:
        if isinstance(target, ast.Name):
            self._note(target.id, facts)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self._bind(each, facts)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, facts)
        elif isinstance(target, ast.Subscript):
            self._select(self.of(target.value) | self.of(target.slice) & _TELLS)
            self._bind(target.value, facts)
        elif isinstance(target, ast.Attribute):
            if self._members is not None and isinstance(target.value, ast.Name) and target.value.id == self._receiver:
                self._members.note(target.attr, facts)
            else:
                self._bind(target.value, facts)

    def of(self, node: ast.AST) -> int:
        """The facts of an expression."""
        handler = _EXPRESSIONS.get(type(node))
        return handler(self, node) if handler is not None else self._all(children(node))

    def _all(self, nodes: Iterable[ast.AST]) -> int:
        found = 0
        for node in nodes:
            found |= self.of(node)
        return found

    def _constant(self, node: ast.Constant) -> int:
        return _INFINITE if isinstance(node.value, str) and node.value.strip("+-") in _INFINITIES else 0

    def _name(self, node: ast.Name) -> int:
        self._asked.add(node.id)
        facts = self._names.get(node.id)
        if node.id in self._inner:
            return (facts or 0) | self._handed
        return self._outside(node.id) if facts is None else facts

    def _outside(self, name: str) -> int:
        definition = self._home.definitions.get(name)
        if definition is not None:
            return self._flow.value(self._home, definition.statement)
        target = self._target(name)
        return _VARIES if target is None else self._imported(target)

    def _target(self, name: str) -> str | None:
        """What a name is imported from, by the file or by one of its functions."""
        return self._home.target(name) or self._home.once(_inner_imports).get(name)

    def _imported(self, target: str) -> int:
        """What a dotted name stands for."""
        for _ in range(MOST_HOPS):
            found = self._home.project.find(target) if framework_of(target) is None else None
            if found is None:
                break
            home, (name, *_) = found
            if name in home.definitions:
                return self._flow.value(home, home.definitions[name].statement)
            target = home.target(name) or name  # it is imported there as well
        return _of_word(target.rpartition(".")[2])

    def _attribute(self, node: ast.Attribute) -> int:
        root: ast.expr = node.value
        if self._members is not None and (_is_name(root, self._receiver) or _is_super(root)):
            return self._members.value(node.attr)
        if node.attr in _DESCRIPTIONS or node.attr in _SIZES:
            self.of(root)
            return _VARIES if node.attr in _SIZES else 0
        parts = [node.attr]
        while isinstance(root, ast.Attribute):
            parts.append(root.attr)
            root = root.value
        if isinstance(root, ast.Name) and root.id not in self._names and root.id not in self._inner:
            target = self._target(root.id)
            if target is not None:
                return self._imported(".".join([target, *reversed(parts)]))
        return self.of(node.value) | (self._name(ast.Name(node.attr)) if node.attr in self._methods else 0)

    def _select(self, facts: int) -> None:
        if facts & (_SINGULAR | _TELLS):
            self.meets = True
        if facts & _GIVEN:
            self._add(_SELECTS)

    def _divide(self, operand: int) -> int:
        if operand & _CLIPPED:
            self.meets = True
        if operand & _GIVEN:
            self._add(_DIVIDES)
        return _SINGULAR if operand & _VARIES else 0

    def _binary(self, node: ast.BinOp) -> int:
        spine = [node]  # a sum of hundreds of terms nests as deep as it is long
        while isinstance(spine[-1].left, ast.BinOp):
            spine.append(spine[-1].left)
        facts = self.of(spine[-1].left)
        for each in reversed(spine):
            facts = self._operator(each.op, facts, each.left, each.right)
        return facts

    def _operator(self, operator: ast.operator, a: int, left: ast.expr, right: ast.expr) -> int:
        b = self.of(right)
        both = a | b
        if isinstance(operator, (ast.BitAnd, ast.BitOr, ast.BitXor)):
            self._mark(left)
            self._mark(right)
            return both
        if isinstance(operator, ast.Sub) and isinstance(left, ast.Constant):
            return both  # `1 - mask`
        if isinstance(operator, ast.Mult):
            self._multiply(a, b)
            return both
        if isinstance(operator, (ast.Div, ast.Mod)):
            both |= self._divide(b | (_VARIES if isinstance(right, ast.Constant) and not right.value else 0))
        elif isinstance(operator, ast.Pow) and not (isinstance(right, ast.Constant) and right.value in (1, 2)):
            both |= self._divide(both)
        return both & ~_BOOLEAN

    def _multiply(self, a: int, b: int) -> None:
        if a & _BOOLEAN:
            self._select(b)
        if b & _BOOLEAN:
            self._select(a)

    def _mark(self, node: ast.AST) -> None:
        """Note that something is a mask."""
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            self._note(node.id, _BOOLEAN | self._names.get(node.id, _VARIES))

    def _unary(self, node: ast.UnaryOp) -> int:
        facts = self.of(node.operand)
        if isinstance(node.op, ast.Invert):
            self._mark(node.operand)
        return _BOOLEAN | facts & _TELLS if isinstance(node.op, ast.Not) else facts

    def _compare(self, node: ast.Compare) -> int:
        tells = self._all(children(node)) & (_TELLS | _INFINITE) or _cancels(node)
        return _BOOLEAN | _VARIES | (_TELLS if tells else 0)

    def _subscript(self, node: ast.Subscript) -> int:
        facts, index = self.of(node.value), self.of(node.slice)
        self._select(facts | index & _TELLS)
        return facts | index & _VARIES

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        for each in node.generators:
            self._for(each)
        return self._all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])

    def _sequence(self, node: ast.List | ast.Tuple) -> int:
        zero = any(isinstance(each, ast.Constant) and each.value == 0 for each in node.elts)
        return self._all(node.elts) | (_BOOLEAN | _VARIES if zero else 0)

    def _lambda(self, node: ast.Lambda) -> int:
        self._inner.update(_parameters(node.args))
        return self.of(node.body)

    def _call(self, node: ast.Call) -> int:
        word = self._word(node.func)
        if word == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            return self._attribute(ast.Attribute(node.args[0], str(node.args[1].value)))
        function = self._receiver_of(node.func) if _of_word(word) else self.of(node.func)
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        given = [self.of(each) for each in arguments]
        whole = reduce(or_, given, 0)
        if word in _SIZES or word in _DESCRIPTIONS:
            return _VARIES if word in _SIZES else 0
        if word in _COLLECTING and isinstance(node.func, ast.Attribute):
            self._bind(node.func.value, whole)
        if word in _SEVERING_WORDS:
            return _VARIES
        if any(keyword.arg == "where" for keyword in node.keywords):
            self._select(whole)
        if word in _BOOLEAN_WORDS or word in _TEST_WORDS:
            return _BOOLEAN | _VARIES | (whole | function) & _TELLS | (_TELLS if word in _TEST_WORDS else 0)
        made = 0
        if word in _SINGULAR_WORDS:
            made |= self._divide(given[-1] if word in _QUOTIENT_WORDS and given else whole | function)
            made |= _SINGULAR | _DIVIDES if word[0].isupper() else 0  # a layer
        if word in _SELECT_WORDS:
            if node.args:
                self._mark(node.args[0])
            self._select(whole | function | (_TELLS if word in _REPLACING_WORDS else 0))
            made |= (_CLIPPED if word in _CLIP_WORDS else 0) | (_SELECTS if word[0].isupper() else 0)
        for place, each in enumerate([function, *given]):  # what takes a function calls it with the rest
            if each & (_SELECTS | _DIVIDES):
                rest = reduce(or_, (other for i, other in enumerate(given, 1) if i != place), 0)
                self._select(rest if each & _SELECTS else 0)
                self._divide(rest if each & _DIVIDES else 0)
        if word in _PRODUCT_WORDS:
            for place, each in enumerate(given):
                self._multiply(each, reduce(or_, given[place + 1 :], function))
        if self._handed | whole != self._handed and not word:
            self._handed |= whole
            self._changed = True
        made |= _BOOLEAN if word in _MASK_WORDS else 0
        return whole | function | made | _VARIES

    def _receiver_of(self, function: ast.expr) -> int:
        """What a method is called on; nothing for a function of a framework."""
        if not isinstance(function, ast.Attribute):
            return 0
        root = function.value
        while isinstance(root, ast.Attribute):
            root = root.value
        is_module = isinstance(root, ast.Name) and root.id not in self._names and self._target(root.id) is not None
        return 0 if is_module else self.of(function.value)

    def _word(self, function: ast.expr) -> str:
        """The word that a call uses; "" for a function of the project."""
        if isinstance(function, ast.Attribute):
            return function.attr
        if not isinstance(function, ast.Name) or function.id in self._names or function.id in self._home.definitions:
            return ""
        target = self._target(function.id) or function.id
        return target.rpartition(".")[2] if framework_of(target) or self._home.project.find(target) is None else ""


def _of_word(word: str) -> int:
    """What a function of a framework is, by the word for it."""
    facts = _SINGULAR | _DIVIDES | _VARIES if word in _SINGULAR_WORDS else 0
    facts |= _SELECTS if word in _SELECT_WORDS else 0
    facts |= _CLIPPED if word in _CLIP_WORDS else 0
    return facts | (_INFINITE if word in _INFINITIES else 0)


def _of_class(module: Module, statement: ast.ClassDef) -> int:
    """What objects of a class do, by the words in it."""
    words = module.syntax.words(statement)
    spelled = {module.imports.get(name, name).rpartition(".")[2] for name in words.names}
    found = reduce(or_, map(_of_word, spelled | words.attributes), 0)
    return found | (0 if words.kinds.isdisjoint((ast.Div, ast.Pow)) else _SINGULAR | _DIVIDES)


def _cancels(node: ast.Compare) -> bool:
    """Whether a comparison is a test for what is not finite: ``x != x``, ``x - x == 0``, ``0 * x != 0``."""
    left, (right, *_) = node.left, node.comparators
    if not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return False
    zero = isinstance(right, ast.Constant) and right.value == 0
    return (zero and isinstance(left, ast.BinOp)) or ast.dump(left) == ast.dump(right)


def _inner_imports(module: Module) -> dict[str, str]:
    return dict(module.inner_imports)


def _is_name(node: ast.expr, name: str | None) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _is_name(node.func, "super")


def _parameters(arguments: ast.arguments) -> list[str]:
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [each.arg for each in [*plain, *filter(None, (arguments.vararg, arguments.kwarg))]]


_STATEMENTS: dict[type, Callable[..., object]] = {
    ast.Assign: _Reader._assign, ast.AnnAssign: _Reader._assign_one, ast.AugAssign: _Reader._augment,
    ast.Return: _Reader._return, ast.For: _Reader._for, ast.AsyncFor: _Reader._for, ast.withitem: _Reader._with,
    ast.If: _Reader._if, ast.While: _Reader._if, ast.Expr: _Reader._expression,
    ast.ClassDef: _Reader._class, ast.FunctionDef: _Reader._function, ast.AsyncFunctionDef: _Reader._function,
}  # fmt: skip
_EXPRESSIONS: dict[type, Callable[..., int]] = {
    ast.Constant: _Reader._constant, ast.List: _Reader._sequence, ast.Tuple: _Reader._sequence,
    ast.Name: _Reader._name, ast.Attribute: _Reader._attribute,
    ast.BinOp: _Reader._binary, ast.UnaryOp: _Reader._unary, ast.Compare: _Reader._compare,
    ast.NamedExpr: _Reader._assign_one, ast.Lambda: _Reader._lambda,
    ast.Subscript: _Reader._subscript, ast.ListComp: _Reader._comprehension, ast.SetComp: _Reader._comprehension,
    ast.GeneratorExp: _Reader._comprehension, ast.DictComp: _Reader._comprehension, ast.Call: _Reader._call,
}  # fmt: skip
