"""Nodes as their owners published them: a healthy one is recognised and passes, a sick one fails by what it has."""

from __future__ import annotations

from typing import Any

import pytest
import real_nodes
from support import shipped
from support.rows import each_row

from pytest_accel.core.verdict import Status
from pytest_accel.skus import loader

NODES = real_nodes.nodes()
NOTHING = (Status.UNMEASURED, Status.INCONCLUSIVE)


@each_row("node", NODES)
def test_a_published_node_gets_the_verdict_that_is_right(node: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "load", shipped.load)  # which reads each file once
    judged, expected = real_nodes.judged(node), node["expect"]
    unseen = {"inventory.count"} if node.get("excerpt") else set()
    assert judged.sku == (expected["sku"] or ""), judged.refused
    assert expected.get("refused", "") in judged.refused
    assert judged.of(Status.FAIL) - unseen == set(expected.get("fails", ()))
    assert judged.of(*NOTHING) - unseen == set(expected.get("unmeasured", ()))
