"""Display names: those of the devices and of the node; anything else is its own name."""

from pytest_accel.core.measurement import NODE, Device, Names


def test_a_subject_without_a_name_is_its_own() -> None:
    names = Names.of([Device(uuid="GPU-7", index=7, driver="nvidia", model="")])
    assert (names["GPU-7"], names[NODE], names["missing device 3"]) == ("gpu7", NODE, "missing device 3")
    assert list(names) == [NODE, "GPU-7"], "what was asked for is not kept"
