"""What a name refers to: a local variable, a definition of the file, an import, a builtin."""

import ast
import math
import re

from wherelint.frameworks import framework_of
from wherelint.frontend.module import Block, Module
from wherelint.frontend.names import canonical
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, dotted, last_name
from wherelint.interpret.annotations import is_none
from wherelint.interpret.builder import Frame
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.values import MISSING, Class, Contents, Dotted, Function, Scope, Value

_BUILTINS = frozenset(
    """abs max min sum len range float int bool zip enumerate isinstance getattr setattr hasattr map list tuple pow
    round print super reversed sorted dict set type any all str complex callable filter iter next property staticmethod
    classmethod""".split()
)
CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "Inf": math.inf, "infty": math.inf, "nan": math.nan,
             "NaN": math.nan, "NINF": -math.inf, "tau": math.tau, "newaxis": None,
             "euler_gamma": 0.5772156649015329}  # fmt: skip
_CONSTANT_MODULES = ("numpy", "jax.numpy", "math", "torch", "scipy.constants")
_resolving: set[tuple[int, str]] = set()


def lookup_name(low: Lowering, name: str) -> Value:
    """The value of a name where control stands now."""
    scope = low.frame.scope
    found = scope.local(name)
    if found is not MISSING:
        return found
    found = global_value(low, scope.module, name)
    if found is not MISSING:
        return found
    if name in _BUILTINS:
        return Dotted(f"builtins.{name}")
    if name == "Ellipsis":
        return ...
    return low.opaque(name, differentiable=False, fixed=True)


def global_scope(module: Module) -> Scope:
    """The one module-level scope of a file."""
    return module.once(Scope)


def global_value(low: Lowering, module: Module, name: str) -> Value:
    """A name of the file's top level, evaluated when it is first needed."""
    scope = global_scope(module)
    if name in scope.names:
        contents = scope.contents.get(name)
        if contents is not None and contents not in low.restored:
            contents.put_back()  # what this function writes, it reads; not what others wrote
            low.restored.add(contents)
        return scope.names[name]
    target = None if name in module.definitions else module.target(name)
    if target is None and name not in module.definitions:
        return MISSING
    key = (id(module), name)
    if key in _resolving:  # it is made of itself, or two files re-export from each other
        return low.opaque(name, differentiable=False) if target is None else Dotted(target)
    _resolving.add(key)
    try:
        if target is not None:
            found = external(low, module, target)
            if isinstance(found, Dotted):
                scope.names[name] = found
            return found
        with low.shared():
            known = set(scope.names)
            scope.names[name] = _define(low, module, name)
        for each in scope.names.keys() - known - scope.contents.keys():
            if contents := Contents(scope.names[each]):
                scope.contents[each] = contents
                low.restored.add(contents)
        return scope.names[name]
    finally:
        _resolving.discard(key)


def external(low: Lowering, module: Module, name: str) -> Value:
    """What a dotted name stands for: a definition in another file of the project, or something outside it."""
    parent, _, last = name.rpartition(".")
    if parent in _CONSTANT_MODULES and last in CONSTANTS:
        return CONSTANTS[last]
    found = module.project.find(name) if framework_of(name) is None else None
    if found is None:
        return Dotted(name)
    home, rest = found
    value = global_value(low, home, rest[0])
    if value is MISSING or (isinstance(value, Dotted) and len(rest) > 1):
        return Dotted(".".join([value.name, *rest[1:]])) if isinstance(value, Dotted) else Dotted(name)
    for part in rest[1:]:
        if not isinstance(value, Class):
            return Dotted(name)
        value = member(value, part)
        if value is MISSING:
            return Dotted(name)
    return value


def _define(low: Lowering, module: Module, name: str) -> Value:
    definition = module.definitions[name]
    scope = global_scope(module)
    block = definition.block
    statement = definition.statement
    if isinstance(statement, FUNCTION_DEFS):
        return make_function(low, statement, scope, block, "")
    if isinstance(statement, ast.ClassDef):
        return make_class(low, statement, scope, block)
    path_conditions, low.path_conditions = low.path_conditions, []
    # Which function asks first is chance: what leaves the file while it is imported is no result of that one.
    outputs, measured, opaque_calls = len(low.outputs), len(low.measured), low.opaque_calls
    try:  # a module constant is computed once, before anything is differentiated
        with low.inside(Frame(scope, "", block, len(path_conditions))), low.without_gradient():
            low.run([statement])
    finally:
        low.path_conditions = path_conditions
        del low.outputs[outputs:], low.measured[measured:]
        low.opaque_calls = opaque_calls
    return scope.names.get(name, low.opaque(name, differentiable=False))


def make_function(
    low: Lowering, node: FunctionDef, scope: Scope, block: Block, prefix: str, owner: Class | None = None
) -> Value:
    """A function object, its decorators applied."""
    name = f"{prefix}.{node.name}" if prefix else node.name
    function = Function(node, scope, block, name, owner)
    return decorated(low, function, scope, block)


#: Decorators that replace the derivative of what they decorate.
CUSTOM_RULES = frozenset({
    "jax.custom_jvp", "jax.custom_vjp", "jax.custom_gradient", "tensorflow.custom_gradient", "torch.autograd.Function",
    "jax.custom_derivatives.custom_jvp", "jax.custom_derivatives.custom_vjp", "equinox.filter_custom_vjp",
    "equinox.filter_custom_jvp", "jax.custom_transpose",
})  # fmt: skip
_RULE_SETTERS = frozenset({"defjvp", "defvjp", "defjvps", "def_jvp", "def_vjp", "def_fwd", "def_bwd"})
#: Parts of the frameworks whose classes only ever compute what nobody differentiates.
_UNDIFFERENTIATED = re.compile(r"(torch|tensorflow|keras|tf_keras)\b.*\.(metrics|optimizers?|optim|callbacks|data)\.")
#: Contexts and decorators without gradients, by the last part of their names.
NO_GRADIENT = frozenset({"no_grad", "inference_mode"})


def _decorator_name(low: Lowering, expression: ast.expr) -> tuple[str, str]:
    """Canonical name and last attribute of a decorator; of ``partial(jax.custom_jvp, ...)`` its first argument."""
    if isinstance(expression, ast.Call):
        name, last = _decorator_name(low, expression.func)
        if last == "partial" and expression.args:
            return _decorator_name(low, expression.args[0])
        return name, last
    first, _, rest = dotted(expression).partition(".")
    if not first:
        return "", last_name(expression)
    target = low.frame.scope.find(first)
    imported = low.frame.scope.module.imports.get(first) if target is MISSING else None
    base = target.name if isinstance(target, Dotted) else imported or first
    name = canonical(f"{base}.{rest}".rstrip("."))
    return name, name.rpartition(".")[2]


def decorated(low: Lowering, function: Function, scope: Scope, block: Block) -> Value:
    """Mark functions whose body reverse mode never runs through; every other decorator is transparent."""
    # A method is called by the name of its class, a function inside another by its own.
    role = scope.module.rules.get(function.name if function.owner else function.name.rpartition(".")[2])
    function.opaque, function.jvp_rule, function.custom_value = role is not None, role == "jvp", role == "primal"
    assert isinstance(function.definition, FUNCTION_DEFS)
    with low.inside(Frame(scope, "", block, len(low.path_conditions))):
        decorators = [_decorator_name(low, each) for each in function.definition.decorator_list]
    function.decorators = frozenset(last for _, last in decorators)
    for name, last in decorators:
        if name in CUSTOM_RULES or last in _RULE_SETTERS or last == "custom_gradient":
            function.opaque = True
        function.jvp_rule = function.jvp_rule or last == "defjvp"
        if last in ("custom_jvp", "custom_vjp", "filter_custom_vjp", "filter_custom_jvp"):
            function.opaque = function.custom_value = True
    return function


def make_class(low: Lowering, node: ast.ClassDef, scope: Scope, block: Block, prefix: str = "") -> Class:
    """A class object: methods and class constants, evaluated in order."""
    name = f"{prefix}.{node.name}" if prefix else node.name
    inner = Scope(scope.module, scope)
    with low.inside(Frame(scope, name, block, len(low.path_conditions))) as frame:
        plain = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)  # `Base[T]`
        made = frame.owner = Class(node, scope, block, name, tuple(map(low.expression, plain)))
        frame.scope = inner
        with low.without_gradient():
            low.run(node.body)
    made.members = inner.names
    outside = [b.name for c in made.ancestry() for b in c.bases if isinstance(b, Dotted)]
    opaque = "torch.autograd.Function" in outside or any(_UNDIFFERENTIATED.match(name) for name in outside)
    for value in made.members.values():
        if isinstance(value, Function):
            value.owner = made
            value.scope = scope if value.scope is inner else value.scope
            value.opaque = value.opaque or opaque
    return made


def member(cls: Class, name: str) -> Value:
    """A class attribute, looked up along the bases that the project defines."""
    for ancestor in cls.ancestry():
        if name in ancestor.members:
            return ancestor.members[name]
    return MISSING


def constructor(cls: Class) -> Value:
    """``__init__``, or MISSING where it takes the fields of the class, as a dataclass does whatever it inherits."""
    for ancestor in cls.ancestry():
        if "__init__" in ancestor.members:
            return ancestor.members["__init__"]
        decorators = (d.func if isinstance(d, ast.Call) else d for d in ancestor.definition.decorator_list)
        if any("dataclass" in _imported_name(ancestor, each) for each in decorators):
            return MISSING
    return MISSING


def _imported_name(cls: Class, node: ast.expr) -> str:
    """The last part of a name in the body or head of a class, as the module that defines it calls that."""
    name = dotted(node)
    return cls.block.module.imports.get(name, name).rpartition(".")[2]


def annotated_class(low: Lowering, annotation: ast.expr | None, scope: Scope) -> Class | None:
    """The class of the project that an annotation names; ``scope`` is where it is written."""
    if isinstance(annotation, ast.BinOp) and is_none(annotation.right):
        annotation = annotation.left
    elif isinstance(annotation, ast.Subscript):
        name = last_name(annotation.value)
        optional = scope.module.imports.get(name, name).rpartition(".")[2] == "Optional"
        annotation = annotation.slice if optional else annotation.value
    written = annotation.value if isinstance(annotation, ast.Constant) else dotted(annotation)
    first, *rest = written.split(".") if isinstance(written, str) else ("",)
    found = scope.find(first) if first.isidentifier() else None
    found = global_value(low, scope.module, first) if found is MISSING else found
    for name in rest:
        if isinstance(found, Dotted):
            found = external(low, scope.module, f"{found.name}.{name}")
        else:
            found = member(found, name) if isinstance(found, Class) else None
    return found if isinstance(found, Class) else None


def field_class(low: Lowering, cls: Class, name: str) -> Class | None:
    """The class of the project that a field is annotated with."""
    for ancestor in cls.ancestry():
        for statement in ancestor.definition.body:
            if isinstance(statement, ast.AnnAssign) and getattr(statement.target, "id", "") == name:
                return annotated_class(low, statement.annotation, ancestor.scope)
    return None


def fields(cls: Class) -> dict[str, ast.expr]:
    """What a generated constructor of a class takes, in order, and the annotation of each."""
    found: dict[str, ast.expr] = {}
    for ancestor in reversed(list(cls.ancestry())):
        for statement in ancestor.definition.body:
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            kind = getattr(statement.annotation, "value", statement.annotation)
            if not isinstance(kind, ast.expr) or _imported_name(ancestor, kind) != "ClassVar":
                found[statement.target.id] = statement.annotation
    return found
