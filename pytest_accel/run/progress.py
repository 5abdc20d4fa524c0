"""What a run tells of its progress while it measures."""


class Progress:
    """Shows the progress of a run. This one shows it to nobody; a subclass does."""

    def step(self, what: str) -> None:
        """Show what is being done. It is called a few times per second, as `timed` is."""

    def timed(self, what: str, spent: float, expected: float) -> None:
        """Show what is being done, the seconds spent and the seconds expected."""

    def done(self) -> None:
        """Show nothing any more, until the next step."""
