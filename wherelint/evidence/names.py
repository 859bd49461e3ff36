"""What the names of the field say: of places where nobody differentiates, of data, of settings."""

import ast
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from wherelint.evidence.pieces import Evidence
from wherelint.frontend.module import Module, bases
from wherelint.frontend.syntax import last_name, methods
from wherelint.graph.node import Leaf

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: What tests, metrics and the like are called, as folders and files.
_FOLDERS = {
    "test": "test tests testing conftest",
    "metric": "metric metrics eval evaluation evaluate evaluator evaluators val validation logs logger loggers logging",
    "environment": "env envs environment environments",
    "data pipeline": "data dataset datasets datapipe datapipes dataloader dataloaders"
    " preprocessing preprocessor preprocessors augmentation augmentations",
    "optimizer": "optimizer optimizers driver drivers schedule schedules scheduler schedulers",
    "sampler": "sampler samplers sampling hmc mcmc nuts random",
    "picture": "plot plots plotting plotter vis viz visualize visualise visualizer visualization visualisation",
    "postprocessing": "postprocess postprocessing postprocessor",
    "demonstration": "demo demos tutorial tutorials",
    "example": "benchmark benchmarks example examples",
}
_BY_WORD = {word: place for place, words in _FOLDERS.items() for word in words.split()}
#: What a place says against a gradient: mostly that nothing there is trained. People train in examples, too.
_EVIDENCE = {
    "test": Evidence.TEST,
    **dict.fromkeys(("update", "start", "demonstration", "data"), Evidence.SELDOM_TRAINED),
}
#: The last word of the classes that do such work.
_CLASS_OF = {
    "Metric": "metric",
    "Evaluator": "metric",
    "Validator": "metric",
    "Env": "environment",
    "Environment": "environment",
    "Dataset": "data pipeline",
    "Optimizer": "optimizer",
    "Schedule": "optimizer",
    "Scheduler": "optimizer",
    "Constraint": "constraint",  # Keras calls it on the weights that an update has given
    "Constraints": "constraint",
    "Callback": "metric",
    "Sampler": "sampler",
    "Visualizer": "picture",
    "Plotter": "picture",
}
#: The first words of what metrics of how good something is have to do.
_MEASURING = frozenset(
    "accumulate add aggregate calculate call compute evaluate forward process reset result score update".split()
)
#: The first words of the functions that do.
_FUNCTION_OF = {
    **dict.fromkeys(("visualize", "visualise", "plot"), "picture"),
    **dict.fromkeys(("postprocess", "preprocess", "inference"), "postprocessing"),
    **dict.fromkeys(("validate", "write"), "metric"),
    **dict.fromkeys(("init", "initial", "initialize", "initialise", "reset", "precompute"), "start"),
}
#: The last words of functions that do other work.
_WORK_OF = {"sampler": "sampler", "warmup": "optimizer"}
#: What a step does to gradients and parameters, once they are computed: ``clip_grad_norm``, ``project_params``.
_CHANGING = frozenset("clip normalize normalise project scale".split())
_OF_STEPS = frozenset("grad grads gradient gradients params parameters".split())
#: What says nothing of a file whose name has another word.
_HELPERS = frozenset("functions helper helpers ops tools util utils".split())
#: What is given and not learned, by the words that the field keeps for it.
DATA = frozenset(
    """batch target targets label labels gt truth truths index indices idx ids count counts num number rank ranks reward
    rewards advantage advantages adv returns mask masks valid""".split()
)
#: Some of it, as what a function makes.
_MADE = DATA - set("batch count counts mask masks num number valid".split())
_KEYED = re.compile(r"([\w.]+?)(?:\.get\(|\[)([^()\[\]]*)[)\]].*", re.DOTALL)
#: A call of what calls its first argument for each of several: ``map(f, x)``.
_MAPPED = re.compile(r"\w*(?:map|apply)\(\s*(?=[\w.]+,)")
#: What a record of given data is called, if its parts have names.
_RECORDS = frozenset("data example examples feats sample samples".split())
#: What objects that hold settings are called.
_CONFIGURATIONS = frozenset(
    """args cfg conf config configs configuration flags hparams hps hyperparameters hyperparams information opt options
    opts schedule scheduler settings setup""".split()
)
#: What optax, and what is like it, makes of an initial state and an update.
_TRANSFORMATION = "GradientTransformation"
#: Methods that a trainer calls without gradients.
_STEPS = frozenset({"validation_step", "test_step", "predict_step"})


def surroundings(module: Module, functions: Iterable[str]) -> Iterator[str]:
    """What code within some functions and classes is there for, by the names of these, of its file and its folders."""
    yield from module.once(_surroundings_of_file)
    for name in functions:
        words = _WORD.findall(name)
        if name[:1].isupper():
            yield from module.once(_surroundings_of_class, name)
        if name in module.once(_updates):
            yield "update"
        if name in _STEPS:
            yield "metric"
        if words and words[0] in _FUNCTION_OF:
            yield _FUNCTION_OF[words[0]]
        if words and words[0] in _CHANGING and not _OF_STEPS.isdisjoint(words):
            yield "optimizer"
        if words and words[-1] in _WORK_OF:
            yield _WORK_OF[words[-1]]
        if words and words[-1].lower() in _MADE:  # norm_targets makes targets; in target_loss it is another matter
            yield "data"


def by_surroundings(module: Module, functions: Iterable[str]) -> set[Evidence]:
    """What the place of code within some functions and classes says against a gradient."""
    found = set(surroundings(module, functions)) - {"example"}
    return {_EVIDENCE.get(place, Evidence.UNTRAINED_CODE) for place in found}


def _of_class(name: str, module: Module) -> Iterator[str]:
    """What the name of a class says, or else those that it inherits from: ``class Adam(torch.optim.Optimizer)``."""
    family = _family(name, module)
    for each in (name, *_bases(family)):
        words = _WORD.findall(each)
        if words and words[-1] in _CLASS_OF and (words[-1] != "Metric" or _measures(each, family)):
            yield _CLASS_OF[words[-1]]
            return


def _family(name: str, module: Module) -> list[ast.ClassDef]:
    """A class of a file and those of the project that it inherits from."""
    known = module.definitions.get(name)
    statement = known.statement if known is not None else None
    return [statement, *(base for _, base in bases(module, statement))] if isinstance(statement, ast.ClassDef) else []


def _bases(family: Iterable[ast.ClassDef]) -> Iterator[str]:
    """The names of what some classes inherit from."""
    return (last_name(base) for cls in family for base in cls.bases)


def inherits(name: str, module: Module, pattern: re.Pattern[str]) -> bool:
    """Whether a class of a file inherits, as far as the project goes, from one of such a name."""
    return any(map(pattern.search, _bases(_family(name, module))))


def _measures(name: str, family: Iterable[ast.ClassDef]) -> bool:
    """Whether a metric is one of how good something is; a Riemannian one computes distances and no result."""
    named = (word for cls in family for method in methods(cls) for word in method.name.strip("_").split("_")[:1])
    return name == "Metric" or not _MEASURING.isdisjoint(named)


def _acts(cls: ast.ClassDef) -> bool:
    """Whether a class is an environment by its methods: it is reset, and steps where an action leads."""
    own = {method.name: [arg.arg for arg in method.args.args] for method in methods(cls)}
    return "reset" in own and any(arg.startswith("action") for arg in own.get("step", ()))


def _updates(module: Module) -> frozenset[str]:
    """The functions of a file that it makes a gradient transformation of: what optimizers do with gradients."""
    calls = [node for statement, block in module.blocks if block.mentions(_TRANSFORMATION)
             for node in ast.walk(statement) if isinstance(node, ast.Call)]  # fmt: skip
    makers = [call for call in calls if last_name(call.func).startswith(_TRANSFORMATION)]
    arguments = [each for call in makers for each in (*call.args, *(keyword.value for keyword in call.keywords))]
    return frozenset(each.id for each in arguments if isinstance(each, ast.Name))


def _surroundings_of_file(module: Module) -> tuple[str, ...]:
    return tuple(_of_file(module))


def _surroundings_of_class(module: Module, name: str) -> tuple[str, ...]:
    return tuple(_of_class(name, module))


def _of_file(module: Module) -> Iterator[str]:
    path = PurePath(os.path.relpath(module.filename, module.project.scope or None))
    folders = () if ".." in path.parts else path.parts[:-1]
    stem = path.stem.lower()
    words = stem.split("_")
    if words[0] in ("test", "conftest"):  # test_model.py; env_mat.py is the matrix of an environment
        yield "test"
    if any(isinstance(statement, ast.ClassDef) and _acts(statement) for statement, _ in module.blocks):
        yield "environment"
    metrics = [name for name in module.definitions if name.endswith("Metric") and _family(name, module)]
    geometry = any(not _measures(name, _family(name, module)) for name in metrics)
    last = words[-2] if words[-1] in _HELPERS and len(words) > 1 else words[-1]
    for part in (*module.package.split("."), *folders, stem, stem.replace("_", ""), last):
        if part in _BY_WORD and not (geometry and part in ("metric", "metrics")):
            yield _BY_WORD[part]


def words_of(name: str) -> frozenset[str]:
    """The words of an input's name: of ``self.target_boxes`` the attribute's, of a call the function's.

    Of ``batch["target"]`` and ``batch.get(keys.target)`` those of the container and of the key.
    """
    mapped = _MAPPED.match(name)
    if mapped is not None:
        name = f"{name[mapped.end() :].partition(',')[0]}()"
    keyed = _KEYED.fullmatch(name)
    container, key = keyed.groups() if keyed else (re.split(r"[(\[]", name)[0], "")
    lasts = (container.rpartition(".")[2], key.rpartition(".")[2])
    words = [word.lower() for last in lasts for word in _WORD.findall(last.replace("_", " "))]
    if not keyed and name.startswith(f"{container}("):  # flatten_batch(x) is no batch, get_targets(x) are targets
        if words[-1:] == ["single"]:  # what is done for one image, or one level, of several
            words.pop()
        del words[:-1]
    return frozenset(words).union({"batch"} if key and _RECORDS.intersection(words) else ())


def is_setting(leaf: Leaf) -> bool:
    """Whether an input is a number that somebody chose for the whole run."""
    return leaf.setting or is_configured(leaf.name)


def is_configured(name: str) -> bool:
    """Whether an input is a part of an object that holds settings."""
    parents = name.lower().split(".")[:-1]
    return not _CONFIGURATIONS.isdisjoint(part.strip("_").rpartition("_")[2] for part in parents)
