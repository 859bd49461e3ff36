"""The words of an input's name."""

import re

from wherelint.analysis import places

_KEYED = re.compile(r"([\w.]+?)(?:\.get\(|\[)([^()\[\]]*)[)\]].*", re.DOTALL)
#: A call of what calls its first argument for each of several: ``map(f, x)``.
_MAPPED = re.compile(r"\w*(?:map|apply)\(\s*(?=[\w.]+,)")
#: What a record of given data is called, if its parts have names.
_RECORDS = frozenset("data example examples feats sample samples".split())


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
    words = [word.lower() for last in lasts for word in places.WORD.findall(last.replace("_", " "))]
    if not keyed and name.startswith(f"{container}("):  # flatten_batch(x) is no batch, get_targets(x) are targets
        if words[-1:] == ["single"]:  # what is done for one image, or one level, of several
            words.pop()
        del words[:-1]
    return frozenset(words).union({"batch"} if key and _RECORDS.intersection(words) else ())
