"""What reading and searching one file may cost, and what was given up since it would have cost more."""


class Budget:
    """The limits of one file, counted rather than timed, so that a run gives what another one gives."""

    #: Values and steps of one function, with all that it calls, and how deeply these calls are nested.
    nodes = 6_000
    steps = 300_000
    depth = 6
    #: Node evaluations of the searches of one function.
    evaluations = 800_000
    #: Steps and node evaluations of the whole file.
    file_steps = 2_000_000
    file_evaluations = 12_000_000
    #: Results of a function that are looked at for each selection.
    results = 8
    #: Functions that are followed from one, to see what it brings together.
    functions = 60
    #: Other files that are opened for names that lead to no framework yet, and that are searched for callers.
    files = 60
    mentions = 8
    #: The size of another file that is followed.
    file_bytes = 400_000
    #: The length of a text that is checked.
    characters = 12_000_000

    def __init__(self) -> None:
        #: The sentences, each once, in order.
        self.given_up: dict[str, None] = {}

    def give_up(self, what: str, why: str) -> None:
        """Note that something was left out."""
        self.given_up[f"gave up on {what}: {why}"] = None
