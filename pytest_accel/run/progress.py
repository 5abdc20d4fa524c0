"""The progress of a run while it measures."""


class Progress:
    """Shows the progress of a run. This one shows it to nobody; a subclass does."""

    def step(self, message: str) -> None:
        """Show a step of the run. It is called a few times per second, as `timed` is."""

    def timed(self, activity: str, elapsed: float, expected: float) -> None:
        """Show an activity, the seconds elapsed and the seconds expected."""

    def done(self) -> None:
        """Show nothing any more, until the next step."""
