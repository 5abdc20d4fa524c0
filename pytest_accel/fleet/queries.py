"""The questions that are asked of a store: figures counted and averaged by the database, decided on in `analysis`.

Only rows that may be findings come out of it, so that a fleet of 80,000 devices is no more work here than one of 80.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Status
from pytest_accel.fleet import database, store
from pytest_accel.fleet.analysis import limits, offenders, outliers, recalibration, trends, updates
from pytest_accel.fleet.analysis.groups import ENOUGH_DEVICES, Group, Kind, standards
from pytest_accel.fleet.analysis.limits import Fired
from pytest_accel.fleet.analysis.offenders import Event
from pytest_accel.fleet.analysis.outliers import Outlier, Subject
from pytest_accel.fleet.analysis.recalibration import Proposed, Sampled
from pytest_accel.fleet.analysis.trends import Drift, Series, Trend
from pytest_accel.fleet.analysis.updates import Update
from pytest_accel.judging.calibration import Reading
from pytest_accel.judging.gaps import FAILS_AT, LEAST
from pytest_accel.judging.like_devices import TIMES, part_of

KIND: Final = "sku, platform, level, metric, unit, method"
"""The columns of `Kind`."""
COMPARED: Final = "method <> '' AND value IS NOT NULL"
"""The figures that are compared."""
MOST_EVENTS: Final = 200_000
"""Most verdicts that repeat offenders are looked for among, the newest ones; a fleet has some hundreds a night."""


class Fleet:
    """Some nights of a store, the last of which is the one that is looked at."""

    def __init__(self, path: Path, nights: Sequence[str]) -> None:
        """Raise BadFile for a store without these nights."""
        self.path, self.nights = path, list(nights)
        known = store.nights(path)
        for night in self.nights:
            if night not in known:
                raise BadFile(f"{path}: holds no night {night}; its nights are {', '.join(known[-3:]) or 'none'}")
        if not self.nights:
            raise BadFile(f"{path}: holds no night")
        self.simulated = store.is_simulated(path)
        self._db = database.connect()
        for name, file in (("figures", store.FIGURES), ("runs", store.RUNS)):
            self._view(name, [store.folder_of(path, night) / file for night in self.nights])
        self._view("tonight", [store.folder_of(path, self.night) / store.FIGURES])
        self._view("devices", [path / store.DEVICES])

    @property
    def night(self) -> str:
        """The night that is looked at: ISO 8601."""
        return self.nights[-1]

    def _view(self, name: str, files: Sequence[Path]) -> None:
        there = [each for each in files if each.exists()]
        if not there:
            raise BadFile(f"{files[-1]}: is missing; add the records of that night again")
        query = f"FROM read_parquet({database.files(there)}, hive_partitioning = false)"
        self._db.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds."""
        return self._db.execute(query, list(parameters)).fetchall()

    def execute(self, query: str, *parameters: object) -> None:
        """Do what a statement says."""
        self._db.execute(query, list(parameters))

    def table(self, name: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
        """Make a table of a few rows."""
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({columns})")
        if rows:
            self._db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)  # noqa: S608

    def subjects(self, devices: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return UUID and serial number of devices, by their number."""
        wanted = sorted(set(devices))
        query = "SELECT device, uuid, serial FROM devices SEMI JOIN (SELECT unnest(?) AS device) USING (device)"
        return {number: (uuid, serial) for number, uuid, serial in self.rows(query, wanted)}

    # -- runs

    def runs(self) -> list[tuple[Any, ...]]:
        """Return node, word, state, exit, line, record, level, SKU and devices of tonight's runs."""
        columns = "node, word, state, exit, line, record, level, sku, devices"
        return self.rows(f"SELECT {columns} FROM runs WHERE night = ? ORDER BY node, started", self.night)  # noqa: S608

    def statuses(self) -> dict[str, int]:
        """Return how many verdicts of tonight have each status."""
        return dict(self.rows("SELECT status, count(*) FROM tonight GROUP BY status"))

    # -- outliers

    def groups(self) -> list[Group]:
        """Return tonight's groups of comparable figures, for each driver and for all of them."""
        query = f"""
            SELECT {KIND}, CASE WHEN grouping(driver) = 1 THEN NULL ELSE driver END, count(*),
                   count(DISTINCT device), count(DISTINCT node), median(value), mad(value)
            FROM tonight WHERE {COMPARED} GROUP BY GROUPING SETS (({KIND}), ({KIND}, driver))
        """  # noqa: S608
        return [Group(Kind(*row[:6]), *row[6:]) for row in self.rows(query)]

    def outliers(self, groups: Iterable[Group]) -> list[Outlier]:
        """Return tonight's figures that are far behind those of their group."""
        compared = standards(groups)
        bounds = [
            (*_columns(each.kind), each.driver or "", each.driver is None, each.bound, each.kind.more_is_better)
            for each in compared.values()
        ]
        columns = ", ".join(f"{name} VARCHAR" for name in f"{KIND}, driver".split(", "))
        self.table("bounds", f"{columns}, pooled BOOLEAN, bound DOUBLE, rate BOOLEAN", bounds)
        query = f"""
            SELECT t.device, t.node, t.name, t.slot, t.value, t.status, t.driver, b.pooled, {_of("t", KIND)}
            FROM tonight t JOIN bounds b USING ({KIND})
            WHERE t.{COMPARED} AND (b.pooled OR b.driver = t.driver)
                  AND CASE WHEN b.rate THEN t.value < b.bound ELSE t.value > b.bound END
        """  # noqa: S608
        rows = self.rows(query)
        names = self.subjects(row[0] for row in rows)
        found = []
        for device, node, name, slot, value, status, driver, pooled, *kind in rows:
            group = compared.get((Kind(*kind), driver))
            if pooled and group is not None:
                continue  # compared with those of its own driver, in another row or within their bounds
            group = group or compared[Kind(*kind), None]
            subject = Subject(device, node, name, slot, *names.get(device, ("", "")))
            one = outliers.outlier(subject, value, status, group)
            found += [one] if one else []
        return outliers.by_device(found)

    # -- trends

    def metrics(self) -> list[tuple[str, str]]:
        """Return the metrics of tonight that are compared, with their units."""
        return self.rows(f"SELECT DISTINCT metric, unit FROM tonight WHERE {COMPARED} ORDER BY ALL")  # noqa: S608

    def trends(self) -> tuple[list[Trend], list[Drift]]:
        """Return the devices that lose speed over the nights, and what the fleet does as a whole."""
        found: list[Trend] = []
        drifts: list[Drift] = []
        if len(self.nights) < trends.ENOUGH_NIGHTS:
            return found, drifts
        for metric, unit in self.metrics():
            self._slopes(metric, unit)
            shared = self._drifts()
            drifts += shared
            slopes = trends.shared_slopes(shared)
            decided = (trends.decide(each, slopes.get(each.kind, 0.0)) for each in self._candidates(metric, unit))
            found += [each for each in decided if each]
        return trends.worst_first(found), [each for each in drifts if each.found]

    def _slopes(self, metric: str, unit: str) -> None:
        """Make a table of the slope of every series of a metric, as a share of its value a night."""
        self.execute(
            f"""
            CREATE OR REPLACE TEMP TABLE slopes AS
            SELECT device, driver, vbios, {KIND}, count(*) AS n, max(night) AS last,
                   datediff('day', min(night), max(night)) AS days, regr_r2(value, epoch(night) / 86400) AS r2,
                   regr_slope(value, epoch(night) / 86400) / avg(value) AS slope
            FROM figures WHERE metric = ? AND unit = ? AND {COMPARED} AND value > 0
            GROUP BY device, driver, vbios, {KIND} HAVING count(*) >= {trends.ENOUGH_NIGHTS} AND avg(value) > 0
            """,  # noqa: S608
            metric,
            unit,
        )

    def _drifts(self) -> list[Drift]:
        query = f"SELECT {KIND}, count(*), median(slope), max(days) FROM slopes GROUP BY {KIND} ORDER BY ALL"  # noqa: S608
        rows = [row for row in self.rows(query) if row[6] >= ENOUGH_DEVICES and row[7] is not None]
        return [Drift(Kind(*row[:6]), row[6], row[7], row[8] + 1) for row in rows]

    def _candidates(self, metric: str, unit: str) -> list[Series]:
        """Return the series whose slope may be a finding: steeper than the fleet's, beyond half of what is one."""
        least = LEAST[part_of(metric)] / 2
        sign = 1 if unit in TIMES else -1
        query = f"""
            WITH fleet AS (SELECT {KIND}, CASE WHEN count(*) >= {ENOUGH_DEVICES} THEN median(slope) ELSE 0 END AS shared
                           FROM slopes GROUP BY {KIND}),
                 steep AS (SELECT s.device, s.driver, s.vbios, {_of("s", KIND)} FROM slopes s JOIN fleet USING ({KIND})
                           WHERE {sign} * (s.slope - fleet.shared) * s.days >= ?
                                 AND (abs(fleet.shared) * s.days >= ? OR s.r2 * (s.n - 2) >= ? * (1 - s.r2)))
            SELECT f.device, f.driver, f.vbios, {_of("f", KIND)}, f.night, f.value, f.node, f.name, f.slot
            FROM figures f JOIN steep USING (device, driver, vbios, {KIND})
            WHERE f.metric = ? AND f.unit = ? AND f.{COMPARED} AND f.value > 0 ORDER BY ALL
        """  # noqa: S608
        parameters = (least, least, FAILS_AT**2, metric, unit)
        series: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for row in self.rows(query, *parameters):
            series.setdefault(row[:9], []).append(row[9:])
        names = self.subjects(key[0] for key in series)
        found = []
        for (device, driver, vbios, *kind), some in series.items():
            node, name, slot = some[-1][2:]
            subject = Subject(device, node, name, slot, *names.get(device, ("", "")))
            days, values = [each[0] for each in some], [each[1] for each in some]
            found.append(Series(subject, Kind(*kind), driver, vbios, days, values))
        return found

    # -- updates

    def updates(self) -> list[Update]:
        """Return what updates of driver and firmware within the nights changed, metric by metric."""
        found: list[Update] = []
        for what in ("driver", "vbios"):
            self._db.execute(
                f"""
                CREATE OR REPLACE TEMP TABLE updated AS
                SELECT device, arg_max({what}, night) AS new, arg_min({what}, night) AS first
                FROM (SELECT DISTINCT device, night, {what} FROM figures WHERE {what} <> '' AND {COMPARED})
                GROUP BY device HAVING count(DISTINCT {what}) > 1
                """  # noqa: S608
            )
            if self.rows("SELECT count(*) FROM updated")[0][0]:
                found += [each for metric, _ in self.metrics() for each in self._changes(metric, what)]
        return updates.findings(found)

    def _changes(self, metric: str, what: str) -> list[Update]:
        """Return the change of a metric with the last update of each device, by old and new version."""
        query = f"""
            WITH rows AS (SELECT f.device, f.node, f.night, f.value, f.{what} AS version, u.new, {_of("f", KIND)}
                          FROM figures f JOIN updated u USING (device)
                          WHERE f.metric = ? AND f.{COMPARED} AND f.value > 0 AND f.{what} <> ''),
                 ranked AS (SELECT *, version = new AS is_new,
                                   row_number() OVER (PARTITION BY device, {KIND}, version = new
                                       ORDER BY CASE WHEN version = new THEN night END,
                                                CASE WHEN version <> new THEN night END DESC) AS place
                            FROM rows),
                 ends AS (SELECT device, {KIND}, any_value(node) AS node,
                                 arg_max(version, night) FILTER (WHERE NOT is_new) AS old,
                                 any_value(new) AS new, median(value) FILTER (WHERE NOT is_new) AS before,
                                 median(value) FILTER (WHERE is_new) AS after
                          FROM ranked WHERE place <= {updates.AROUND} GROUP BY device, {KIND})
            SELECT {KIND}, old, new, count(*), count(DISTINCT node), median(before), median(after),
                   median(after / before - 1), mad(after / before - 1)
            FROM ends WHERE before > 0 AND after > 0 GROUP BY {KIND}, old, new HAVING count(*) > 1
        """  # noqa: S608
        return [Update(Kind(*row[:6]), what, *row[6:]) for row in self.rows(query, metric)]

    # -- repeat offenders

    def events(self) -> list[Event]:
        """Return the verdicts of the nights that are FAIL or MARGINAL, the newest ones if they are too many."""
        query = f"""
            SELECT device, node, name, slot, sku, metric, status, night, run, code FROM figures
            WHERE status IN ('{Status.FAIL.value}', '{Status.MARGINAL.value}')
            ORDER BY night DESC, status, node, name LIMIT {MOST_EVENTS}
        """  # noqa: S608
        rows = self.rows(query)
        names = self.subjects(row[0] for row in rows)
        return [
            Event(Subject(row[0], *row[1:4], *names.get(row[0], ("", ""))), *row[4:8], (row[7], row[8]), row[9])
            for row in reversed(rows)
        ]

    def last_nights(self) -> dict[int, list[date]]:
        """Return the last nights on which each device was measured that has a MARGINAL verdict."""
        of = offenders.MARGINAL_OF[1]
        query = f"""
            WITH wanted AS (SELECT DISTINCT device FROM figures WHERE status = '{Status.MARGINAL.value}')
            SELECT device, max(night, {of})
            FROM (SELECT DISTINCT device, night FROM figures SEMI JOIN wanted USING (device)) GROUP BY device
        """  # noqa: S608
        return {device: sorted(nights) for device, nights in self.rows(query)}

    # -- limits

    def limits(self) -> list[Fired]:
        """Return how often each limit with a bound fired."""
        fail, marginal = f"status = '{Status.FAIL.value}'", f"status = '{Status.MARGINAL.value}'"
        held = f"FILTER (WHERE t.status = '{Status.PASS.value}')"
        query = f"""
            WITH since AS (SELECT sku, platform, level, metric, count(*) AS fails
                           FROM figures WHERE {fail} GROUP BY ALL)
            SELECT t.sku, t.platform, t.level, t.metric, max(t.floor), min(t.ceiling), count(DISTINCT t.node),
                   count(DISTINCT t.device), count(DISTINCT CASE WHEN t.{fail} THEN t.node END), count_if(t.{marginal}),
                   coalesce(any_value(s.fails), 0),
                   min(least(coalesce((t.value - t.floor) / nullif(abs(t.floor), 0), 1e9),
                             coalesce((t.ceiling - t.value) / nullif(abs(t.ceiling), 0), 1e9))) {held}
            FROM tonight t LEFT JOIN since s USING (sku, platform, level, metric)
            GROUP BY t.sku, t.platform, t.level, t.metric ORDER BY ALL
        """  # noqa: S608
        every = [Fired(*row[:11], None if row[11] is None or row[11] >= 1e9 else row[11]) for row in self.rows(query)]
        return [
            each for each in every if limits.too_often([each]) or each.floor is not None or each.ceiling is not None
        ]

    # -- recalibration

    def proposals(self) -> list[Proposed]:
        """Return the limits that a sample of the nodes of each SKU proposes, from the last nights."""
        query = f"""
            WITH nodes AS (SELECT sku, node, row_number() OVER (PARTITION BY sku ORDER BY hash(node), node) AS place
                           FROM (SELECT DISTINCT sku, node FROM tonight WHERE {COMPARED})),
                 sample AS (SELECT sku, node FROM nodes WHERE place <= {recalibration.SAMPLE})
            SELECT {_of("f", KIND)}, f.floor, f.ceiling, f.value, f.device, f.node, f.night
            FROM figures f SEMI JOIN sample USING (sku, node)
            WHERE f.{COMPARED} AND f.value > 0 AND f.night >= ? ORDER BY f.night, f.run, f.device
        """  # noqa: S608
        first = self.nights[-recalibration.NIGHTS :][0]
        sampled = []
        for *kind, floor, ceiling, value, device, node, night in self.rows(query, first):
            one = Kind(*kind)
            reading = Reading(one.metric, one.unit, value, str(device), node, {"method": one.method}, source=str(night))
            sampled.append(Sampled(one, reading, floor, ceiling))
        return recalibration.proposals(sampled)

    # -- one device, and the picture of all

    def device(self, name: str) -> list[tuple[Any, ...]]:
        """Return number, UUID, serial number and model of the devices with this UUID or serial number."""
        return self.rows("SELECT device, uuid, serial, model FROM devices WHERE uuid = ? OR serial = ?", name, name)

    def history(self, device: int) -> list[tuple[Any, ...]]:
        """Return every figure of a device: night, place, software, metric, value, status, limit; oldest first."""
        columns = (
            "night, node, name, slot, level, driver, vbios, metric, unit, value, status, floor, ceiling, code, method"
        )
        return self.rows(f"SELECT {columns} FROM figures WHERE device = ? ORDER BY night, metric, run", device)  # noqa: S608


def _columns(kind: Kind) -> tuple[str, ...]:
    return kind.sku, kind.platform, kind.level, kind.metric, kind.unit, kind.method


def _of(table: str, columns: str) -> str:
    """Return columns of one of the tables of a query."""
    return ", ".join(f"{table}.{name.strip()}" for name in columns.split(","))
