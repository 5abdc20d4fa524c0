"""The questions that are asked of a store: figures counted and averaged by the database, decided on in `analysis`.

Only rows that may be findings come out of it, so that a fleet of 80,000 devices is no more work here than one of 80.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Final

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import is_time
from pytest_accel.core.summary import FINISHED
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Status
from pytest_accel.fleet.nights import damage, database, store
from pytest_accel.fleet.nights.analysis import limits, offenders, outliers, trends, updates
from pytest_accel.fleet.nights.analysis.groups import ENOUGH_DEVICES, FigureKind, Group, standards
from pytest_accel.fleet.nights.analysis.limits import Fired
from pytest_accel.fleet.nights.analysis.offenders import Event
from pytest_accel.fleet.nights.analysis.outliers import Outlier, Subject
from pytest_accel.fleet.nights.analysis.trends import Drift, Series, SpeedTrend
from pytest_accel.fleet.nights.analysis.updates import Update
from pytest_accel.fleet.nights.database import literal
from pytest_accel.fleet.nights.extract import WAIVED
from pytest_accel.fleet.nights.tables import Tables
from pytest_accel.judging.gaps import FAILS_AT, LEAST
from pytest_accel.judging.like_devices import part_of

KIND: Final = "sku, platform, level, metric, unit, method"
"""The columns of `FigureKind`."""
COMPARED: Final = "method <> '' AND value IS NOT NULL"
"""The figures that are compared."""
JUDGED: Final = "exit IN (0, 1)"
"""The runs that accept or reject their node."""
BEFORE: Final = 3
"""Nights in each of which a node had a run that is missed tonight; a fleet that examines a part each night has none."""
MOST_EVENTS: Final = 200_000
"""Most verdicts that repeat offenders are looked for among, the newest ones; a fleet has some hundreds a night."""


class StoredNights(Tables):
    """Some nights of a store, the last of which is the one that is looked at."""

    def _open(self) -> None:
        super()._open()
        self.view("runs", [self._runs])
        self.view("tonight", [self.figures_of(self.night)], self._last_runs())
        self._view_figures()

    def _view_figures(self, where: str = "") -> None:
        """Make the table of all nights; that of the last one is known to be readable."""
        self.view("figures", [self.figures_of(night) for night in reversed(self.nights)], where)

    @property
    def _runs(self) -> Path:
        return store.folder_of(self.path, self.night) / store.RUNS

    def leave_out_damaged(self) -> bool:
        """Leave out the nights whose figures cannot be read; return whether there are any.

        Raises BadFile if the last one is among them.
        """
        for why in damage.damaged(self._db, [self._runs, self.figures_of(self.night)]).values():
            raise BadFile(why)
        found = self.leave_out(self.nights)
        self._view_figures()
        return found

    @property
    def night(self) -> str:
        """The night that is looked at: ISO 8601."""
        return self.nights[-1]

    def _last_runs(self) -> str:
        """Return the condition that leaves the last run of each node at each level; empty where none ran twice."""
        ended = f"FROM runs WHERE state = {literal(FINISHED)}"
        last = f"SELECT arg_max(run, started) {ended} GROUP BY node, level, sku"
        number = self.rows(f"SELECT count(*) {ended}")[0][0]
        return "" if len(self.rows(last)) == number else f" WHERE run IN ({last})"

    # -- runs

    def runs(self) -> list[tuple[Any, ...]]:
        """Return node, word, state, exit, line, record, level, SKU and devices of tonight's runs."""
        columns = "node, word, state, exit, line, record, level, sku, devices"
        return self.rows(f"SELECT {columns} FROM runs ORDER BY node, started")  # noqa: S608

    def gone(self) -> list[str]:
        """Return the nodes that have no run tonight, though they had one in each of the last nights before."""
        return [node for (node,) in self._absent("node", "count(DISTINCT night) = {}")]

    def rejected_before(self) -> list[tuple[Any, ...]]:
        """Return node, night and line of the nodes that no run judged tonight, and the last one that did rejected."""
        last = f"arg_max({{}}, started) FILTER (WHERE {JUDGED})"
        columns = f"node, {last.format('night')}, {last.format('line')}"
        return self._absent(columns, f"{last.format('exit')} = 1", f" WHERE {JUDGED}")

    def _absent(self, columns: str, condition: str, which: str = "") -> list[tuple[Any, ...]]:
        """Return what the last nights before have of the nodes without such a run tonight.

        `{}` in the condition is how many nights they are; `which` narrows the runs of tonight.
        """
        nights = self.nights[-1 - BEFORE : -1]
        files = [file for night in nights if (file := store.folder_of(self.path, night) / store.RUNS).exists()]
        files = [file for file in files if not damage.damaged(self._db, [file])]
        if not files:
            return []
        query = f"""
            SELECT {columns} FROM {database.parquet(files)} ANTI JOIN (FROM runs{which}) USING (node)
            GROUP BY node HAVING {condition.format(len(files))} ORDER BY node
        """  # noqa: S608
        return self.rows(query)

    # -- devices on several nodes

    def doubled(self) -> list[tuple[Any, ...]]:
        """Return UUID and nodes of each device that tonight has on several nodes."""
        query = """
            SELECT uuid, list_sort(list(DISTINCT node)) FROM tonight JOIN devices USING (device)
            GROUP BY uuid HAVING min(node) <> max(node) ORDER BY uuid
        """
        return self.rows(query)

    def leave_out_doubled(self) -> None:
        """Leave each device that a night has on several nodes out of that night, as a part of its past."""
        self.execute("""
            CREATE OR REPLACE TEMP TABLE doubled AS
            SELECT device, night FROM figures GROUP BY device, night HAVING min(node) <> max(node)
        """)
        if self.rows("FROM doubled LIMIT 1"):
            self._view_figures(" ANTI JOIN doubled USING (device, night)")

    def statuses(self) -> dict[str, int]:
        """Return how many verdicts of tonight have each status."""
        return dict(self.rows("SELECT status, count(*) FROM tonight GROUP BY status"))

    # -- outliers

    def groups(self) -> list[Group]:
        """Return tonight's groups of comparable figures, for each driver and for all of them."""
        alone = self._groups(f"{KIND}, driver", "driver")
        several = any(len(each) > 1 for each in grouped(alone, lambda each: each.kind).values())
        pooled = self._groups(KIND, "NULL") if several else [replace(each, driver=None) for each in alone]
        return alone + pooled

    def _groups(self, by: str, driver: str) -> list[Group]:
        query = f"""
            SELECT {KIND}, {driver}, count(*), count(DISTINCT run), median(value), mad(value)
            FROM tonight WHERE {COMPARED} GROUP BY {by}
        """  # noqa: S608
        return [Group(FigureKind(*row[:6]), *row[6:]) for row in self.rows(query)]

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
            group = compared.get((FigureKind(*kind), driver))
            if pooled and group is not None:
                continue  # compared with those of its own driver, in another row or within their bounds
            group = group or compared[FigureKind(*kind), None]
            subject = _subject(device, (node, name, slot), names)
            one = outliers.outlier(subject, value, status, group)
            found += [one] if one else []
        return outliers.by_device(found)

    # -- trends

    def metrics(self) -> list[tuple[str, str]]:
        """Return the metrics of tonight that are compared, with their units."""
        return self.rows(f"SELECT DISTINCT metric, unit FROM tonight WHERE {COMPARED} ORDER BY ALL")  # noqa: S608

    def trends(self) -> tuple[list[SpeedTrend], list[Drift]]:
        """Return the devices that lose speed over the nights, and what the fleet does as a whole."""
        found: list[SpeedTrend] = []
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
        columns = f"{KIND}, count(DISTINCT device), median(slope), max(days)"
        query = f"SELECT {columns} FROM slopes GROUP BY {KIND} ORDER BY ALL"  # noqa: S608
        rows = [row for row in self.rows(query) if row[6] >= ENOUGH_DEVICES and row[7] is not None]
        return [Drift(FigureKind(*row[:6]), row[6], row[7], row[8] + 1) for row in rows]

    def _candidates(self, metric: str, unit: str) -> list[Series]:
        """Return the series whose slope may be a finding: steeper than the fleet's, beyond half of what is one.

        One that ended before tonight is none: the device is gone, or on another driver or firmware.
        """
        least = LEAST[part_of(metric)] / 2
        sign = 1 if is_time(unit) else -1
        steep = f"""
            WITH fleet AS (SELECT {KIND}, CASE WHEN count(DISTINCT device) >= {ENOUGH_DEVICES}
                                               THEN median(slope) ELSE 0 END AS shared
                           FROM slopes GROUP BY {KIND})
            SELECT device, driver, vbios, {KIND} FROM slopes JOIN fleet USING ({KIND})
            WHERE last = DATE {literal(self.night)} AND {sign} * (slope - shared) * days >= ?
                  AND (abs(shared) * days >= ? OR r2 * (n - 2) >= ? * (1 - r2))
        """  # noqa: S608
        wanted = set(self.rows(steep, least, least, FAILS_AT**2))
        query = f"""
            SELECT device, driver, vbios, {KIND}, night, value, node, name, slot
            FROM figures SEMI JOIN (SELECT unnest(?) AS device) USING (device)
            WHERE metric = ? AND unit = ? AND {COMPARED} AND value > 0 ORDER BY device, night, run
        """  # noqa: S608
        series: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for row in self.rows(query, sorted({each[0] for each in wanted}), metric, unit) if wanted else ():
            if row[:9] in wanted:
                series.setdefault(row[:9], []).append(row[9:])
        names = self.subjects(key[0] for key in series)
        found = []
        for (device, driver, vbios, *kind), some in series.items():
            subject = _subject(device, some[-1][2:], names)
            days, values = [each[0] for each in some], [each[1] for each in some]
            found.append(Series(subject, FigureKind(*kind), driver, vbios, days, values))
        return found

    # -- updates

    def updates(self) -> list[Update]:
        """Return what updates of driver and firmware within the nights changed, metric by metric.

        Which versions are new is told by the metric that most devices have.
        """
        ranked = f"SELECT metric FROM tonight WHERE {COMPARED} GROUP BY metric ORDER BY count(*) DESC, metric"  # noqa: S608
        common = self.rows(ranked)
        found: list[Update] = []
        for what in ("driver", "vbios") if common else ():
            query = f"""
                SELECT sku, {what}, min(night) FROM figures
                WHERE metric = ? AND {what} <> '' AND {COMPARED} GROUP BY ALL
            """  # noqa: S608
            new = [row[:2] for row in self.rows(query, common[0][0]) if row[2] > date.fromisoformat(self.nights[0])]
            self.table("new_versions", "sku VARCHAR, version VARCHAR", new)
            for (metric,) in common if new else ():
                found += self._changes(metric, what, sorted({sku for sku, _ in new}))
        return updates.findings(found)

    def _changes(self, metric: str, what: str, skus: Sequence[str]) -> list[Update]:
        """Return the change of a metric with the update of each device to a new version."""
        query = f"""
            WITH rows AS (SELECT device, node, night, value, {what} AS version, {KIND} FROM figures
                          WHERE metric = $metric AND sku IN ({", ".join(map(literal, skus))}) AND {COMPARED}
                                AND value > 0 AND {what} <> ''),
                 new AS (SELECT device, level, platform, method, version, min(night) AS since
                         FROM rows SEMI JOIN new_versions USING (sku, version)
                         GROUP BY device, level, platform, method, version),
                 ends AS (SELECT r.device, {_of("r", KIND)}, n.version AS new, any_value(r.node) AS node,
                                 arg_max(r.version, r.night) FILTER (WHERE r.night < n.since) AS old,
                                 median(r.value) FILTER (WHERE r.night < n.since AND r.version <> n.version) AS before,
                                 median(r.value) FILTER (WHERE r.night >= n.since AND r.version = n.version) AS after
                          FROM rows r JOIN new n USING (device, level, platform, method)
                          WHERE abs(datediff('day', n.since, r.night)) <= {updates.AROUND}
                          GROUP BY r.device, {_of("r", KIND)}, n.version)
            SELECT {KIND}, old, new, count(*), count(DISTINCT node), median(before), median(after),
                   median(after / before - 1), mad(after / before - 1)
            FROM ends WHERE before > 0 AND after > 0 GROUP BY {KIND}, old, new HAVING count(*) > 1
        """  # noqa: S608
        return [Update(FigureKind(*row[:6]), what, *row[6:]) for row in self.rows(query, metric=metric)]

    # -- repeat offenders

    def events(self) -> list[Event]:
        """Return the verdicts of the nights that are FAIL or MARGINAL, the newest ones if they are too many.

        A device that is gone has none: no run of tonight measured it, and those of its node have ended.
        """
        query = f"""
            SELECT device, node, name, slot, sku, metric, status, night, run, code FROM figures
            WHERE status IN ('{Status.FAIL.value}', '{Status.MARGINAL.value}')
                  AND (device IN (SELECT device FROM tonight)
                       OR node IN (SELECT node FROM runs WHERE state <> {literal(FINISHED)}))
            ORDER BY night DESC, status, node, name LIMIT {MOST_EVENTS}
        """  # noqa: S608
        rows = self.rows(query)
        names = self.subjects(row[0] for row in rows)
        return [
            Event(_subject(device, place, names), sku, metric, status, night, (night, run), code)
            for device, *place, sku, metric, status, night, run, code in reversed(rows)
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
                           FROM figures WHERE {fail} OR status = '{WAIVED}' GROUP BY ALL)
            SELECT t.sku, t.platform, t.level, t.metric, max(t.floor), min(t.ceiling), count(DISTINCT t.run),
                   count(*), count(DISTINCT t.run) FILTER (WHERE t.{fail}), count_if(t.{marginal}),
                   coalesce(any_value(s.fails), 0),
                   nullif(min(least(coalesce((t.value - t.floor) / nullif(abs(t.floor), 0), 1e9),
                                    coalesce((t.ceiling - t.value) / nullif(abs(t.ceiling), 0), 1e9))) {held}, 1e9)
            FROM tonight t LEFT JOIN since s USING (sku, platform, level, metric)
            GROUP BY t.sku, t.platform, t.level, t.metric ORDER BY ALL
        """  # noqa: S608
        every = [Fired(*row) for row in self.rows(query)]
        return [
            each for each in every if limits.too_often([each]) or each.floor is not None or each.ceiling is not None
        ]


def _subject(device: int, place: Sequence[str], names: Mapping[int, tuple[str, str]]) -> Subject:
    """Return a device with its place (node, name and slot), and its UUID and serial number if it has a number."""
    node, name, slot = place
    return Subject(device, node, name, slot, *names.get(device, ("", "")))


def _columns(kind: FigureKind) -> tuple[str, ...]:
    return kind.sku, kind.platform, kind.level, kind.metric, kind.unit, kind.method


def _of(table: str, columns: str) -> str:
    """Return columns of one of the tables of a query."""
    return ", ".join(f"{table}.{name.strip()}" for name in columns.split(","))
