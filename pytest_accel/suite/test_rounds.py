"""The later rounds of a long run: everything before is measured again until the hours are over (--accel-hours)."""


def test_rounds(accel_rounds, accel_device):
    """Check that no limit of the device breaks later, and that no figure falls clearly behind its first round."""
    accel_rounds()


def test_rounds_of_node(accel_rounds, accel_devices):
    """Check the same of what all devices do together, such as collectives."""
    accel_rounds()
