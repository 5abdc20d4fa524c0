"""The questions that are asked of a store: figures counted and averaged by the database, decided on in `findings`.

Only rows that may be findings come out of it, so that a fleet of 80,000 devices is no more work here than one of 80.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final

from pytest_accel.core.summary import FINISHED
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Status
from pytest_accel.fleet.nights import database, findings, store
from pytest_accel.fleet.nights.database import literal
from pytest_accel.fleet.nights.extract import WAIVED
from pytest_accel.fleet.nights.findings import (
    AROUND,
    ENOUGH_DEVICES,
    ENOUGH_NIGHTS,
    Drift,
    FigureKind,
    Fired,
    Group,
    Offender,
    Outlier,
    Pace,
    RepeatedMarginal,
    SpeedTrend,
    Subject,
    Update,
)

KIND: Final = "sku, platform, level, metric, unit, method"
"""The columns of `FigureKind`."""
SUBJECT: Final = "uuid, node, name, slot, serial"
"""The columns of `Subject`."""
LATEST: Final = """
    uuid, arg_max(node, night) AS node, arg_max(name, night) AS name, arg_max(slot, night) AS slot,
    arg_max(serial, night) AS serial
"""
"""Those of the last of several nights."""
COMPARED: Final = "method <> '' AND value IS NOT NULL"
"""The figures that are compared."""
BEFORE: Final = 3
"""Nights in each of which a node had a run that is missed tonight; a fleet that examines a part each night has none."""
PACE: Final = """
    count(*) AS nights, min(night) AS since, datediff('day', min(night), max(night)) AS days, max(night) AS last,
    exp(avg(y) - regr_slope(y, day) * (avg(day) - min(day))) AS first, regr_slope(y, day) AS pace,
    sqrt(greatest(0, regr_syy(y, day) - regr_sxy(y, day) ** 2 / regr_sxx(y, day)) / (count(*) - 2)
         / regr_sxx(y, day)) AS error
"""
"""The line through the logarithms `y` of some figures by their `day`, by least squares (`findings.Pace`)."""
SHARED: Final = f"""
    SELECT {KIND}, count(DISTINCT uuid) AS devices, median(pace), max(days) + 1 FROM paces JOIN kinds USING (kind)
    GROUP BY {KIND} HAVING devices >= {ENOUGH_DEVICES} ORDER BY ALL
"""  # noqa: S608
"""The pace that the devices of each kind share (`findings.Drift`)."""
AT_ONCE: Final = 1000
"""Nodes whose series are in memory at a time."""
PRESENT: Final = f"""
    (uuid IN (SELECT uuid FROM tonight) OR node IN (SELECT node FROM runs WHERE state <> {literal(FINISHED)}))
"""  # noqa: S608
"""The devices that are not gone: a run of tonight measured them, or one of their node did not end."""
ONE_NODE: Final = """
    CREATE TEMP MACRO one_node(a, b) AS a.node = b.node
        AND (a.uuids = '' OR b.uuids = '' OR list_has_any(string_split(a.uuids, ' '), string_split(b.uuids, ' ')))
"""
"""Two runs are of one node if they have its name, and a device in common, as far as these are known."""


class StoredNights:
    """Some nights of a store, the last of which is the one that is looked at."""

    def __init__(self, path: Path, nights: Sequence[str]) -> None:
        """Raise BadFile for a store without these nights, or with a night that cannot be read."""
        self.path, self.nights = path, list(nights)
        known = store.nights(path)
        for night in self.nights:
            if night not in known:
                raise BadFile(f"{path}: holds no night {night}; its nights are {', '.join(known[-3:]) or 'none'}")
        if not self.nights:
            raise BadFile(f"{path}: holds no night")
        self.simulated = store.is_simulated(path)
        self._figures, self._runs = self._files(store.FIGURES, self.nights), self._files(store.RUNS, self.nights[-1:])
        for file in self._runs:
            if not file.exists():
                raise BadFile(f"{file}: is missing; add the records of that night again")
        self._db = database.connect()
        try:
            self._open()
        except BadFile:
            self.close()
            raise

    def _files(self, name: str, nights: Iterable[str]) -> list[Path]:
        return [store.folder_of(self.path, night) / name for night in nights]

    def _open(self) -> None:
        """Make the views `runs` and `tonight` of the last night, and `figures` of all nights. Raises BadFile.

        A run of tonight counts unless a later one of the same node, SKU and level has ended.
        """
        self.execute(ONE_NODE)
        self.execute(f"CREATE TEMP VIEW runs AS FROM {database.parquet(self._runs)}")
        self.execute(f"""
            CREATE TEMP TABLE replaced AS
            SELECT DISTINCT a.id FROM runs a JOIN runs b ON a.node = b.node AND a.level = b.level AND a.sku = b.sku
            WHERE one_node(a, b) AND b.state = {literal(FINISHED)} AND (b.started, b.id) > (a.started, a.id)
        """)  # noqa: S608
        last = database.parquet(self._figures[-1:])
        self.execute(f"CREATE TEMP VIEW tonight AS FROM {last} WHERE run NOT IN (FROM replaced)")
        self.execute(f"CREATE TEMP VIEW every AS FROM {database.parquet(self._figures)}")
        self.execute("CREATE TEMP VIEW figures AS FROM every")

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    @property
    def night(self) -> str:
        """The night that is looked at: ISO 8601."""
        return self.nights[-1]

    def rows(self, query: str, *parameters: object, **named: object) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds. Raises BadFile if a file of the store cannot be read."""
        with database.reading(self.path, [*self._runs, *reversed(self._figures)]):
            return self._db.execute(query, named or list(parameters)).fetchall()

    execute = rows

    def table(self, name: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
        """Make a table of a few rows."""
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({columns})")
        if rows:
            self._db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)  # noqa: S608

    # -- one device

    def device(self, name: str) -> list[tuple[Any, ...]]:
        """Return UUID, serial number and model of the devices with this UUID or serial number."""
        columns = "SELECT uuid, max(serial), arg_max(model, night) FROM every WHERE {} = ? GROUP BY uuid ORDER BY uuid"
        found = self.rows(columns.format("serial"), name) if name else []
        return found or self.rows(columns.format("uuid"), name)

    def history(self, uuid: str, columns: str, metric: str = "") -> list[tuple[Any, ...]]:
        """Return every figure of a device, or those of a metric; oldest first."""
        one = "AND metric = ?" if metric else ""
        query = f"SELECT {columns} FROM every WHERE uuid = ? {one} ORDER BY night, metric, run"  # noqa: S608
        return self.rows(query, uuid, *([metric] if metric else []))

    # -- runs

    def runs(self) -> list[tuple[Any, ...]]:
        """Return node, word, state, exit, line, record, level, SKU and UUIDs of tonight's runs."""
        columns = "node, word, state, exit, line, record, level, sku, uuids"
        return self.rows(f"SELECT {columns} FROM runs ORDER BY node, started")  # noqa: S608

    def absent(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the nodes without a run tonight that had one in each of the last nights before, and rejected ones.

        The latter are node, night and line of the rejections in these nights after which no run judged the node.
        """
        files = [file for file in self._files(store.RUNS, self.nights[-1 - BEFORE : -1]) if file.exists()]
        if not files:
            return [], []
        with database.reading(self.path, files):
            self._db.execute(f"CREATE OR REPLACE TEMP TABLE before AS FROM {database.parquet(files)}")
        gone = f"""
            SELECT node FROM before b WHERE NOT EXISTS (FROM runs r WHERE one_node(r, b))
            GROUP BY node HAVING count(DISTINCT night) = {len(files)} ORDER BY node
        """  # noqa: S608
        rejected = """
            WITH judged AS (FROM before WHERE exit IN (0, 1) UNION ALL BY NAME FROM runs WHERE exit IN (0, 1))
            SELECT node, night, line FROM before b
            WHERE exit = 1 AND NOT EXISTS (
                FROM judged j WHERE one_node(j, b) AND (j.night, j.started, j.id) > (b.night, b.started, b.id))
            ORDER BY node
        """
        return [node for (node,) in self.rows(gone)], self.rows(rejected)

    def statuses(self) -> dict[str, int]:
        """Return how many verdicts of tonight have each status."""
        return dict(self.rows("SELECT status, count(*) FROM tonight GROUP BY status"))

    # -- devices on several nodes

    def doubled(self) -> list[tuple[Any, ...]]:
        """Return UUID and nodes of each device that tonight has on several nodes."""
        query = """
            SELECT uuid, list_sort(list(DISTINCT node)) FROM tonight
            GROUP BY uuid HAVING min(node) <> max(node) ORDER BY uuid
        """
        return self.rows(query)

    def leave_out_doubled(self) -> None:
        """Leave each device that a night has on several nodes out of that night, as a part of its past."""
        self.execute("""
            CREATE OR REPLACE TEMP TABLE doubled AS
            SELECT uuid, night FROM every GROUP BY uuid, night HAVING min(node) <> max(node)
        """)
        if self.rows("FROM doubled LIMIT 1"):
            self.execute("CREATE OR REPLACE TEMP VIEW figures AS FROM every ANTI JOIN doubled USING (uuid, night)")

    # -- outliers

    def groups(self) -> list[Group]:
        """Return tonight's groups of comparable figures, for each driver and for all of them (None)."""
        query = f"""
            SELECT {KIND}, driver, count(*), count(DISTINCT run), median(value), mad(value) FROM tonight
            WHERE {COMPARED} GROUP BY GROUPING SETS (({KIND}, driver), ({KIND}))
        """  # noqa: S608
        return [Group(FigureKind(*row[:6]), *row[6:]) for row in self.rows(query)]

    def outliers(self, groups: Iterable[Group]) -> list[Outlier]:
        """Return tonight's figures that are far behind those of their group.

        Devices of one driver are compared with each other if they are enough, and else with those of all drivers.
        """
        compared = {(each.kind, each.driver): each for each in groups if each.enough}
        bounds = [
            (*astuple(each.kind), each.driver, each.bound, each.kind.more_is_better) for each in compared.values()
        ]
        columns = ", ".join(f"{name} VARCHAR" for name in f"{KIND}, driver".split(", "))
        self.table("bounds", f"{columns}, bound DOUBLE, rate BOOLEAN", bounds)
        query = f"""
            SELECT {SUBJECT}, value, status, own.driver, {KIND}
            FROM tonight JOIN (SELECT * EXCLUDE (driver) FROM bounds WHERE driver IS NULL) pooled USING ({KIND})
                 LEFT JOIN (FROM bounds WHERE driver IS NOT NULL) own USING ({KIND}, driver)
            WHERE {COMPARED} AND CASE WHEN pooled.rate THEN value < coalesce(own.bound, pooled.bound)
                                      ELSE value > coalesce(own.bound, pooled.bound) END
        """  # noqa: S608
        found = []
        for *subject, value, status, driver, sku, platform, level, metric, unit, method in self.rows(query):
            group = compared[FigureKind(sku, platform, level, metric, unit, method), driver]
            one = findings.outlier(Subject(*subject), value, status, group)
            found += [one] if one else []
        return findings.by_device(found)

    # -- trends

    def trends(self) -> tuple[list[SpeedTrend], list[Drift]]:
        """Return the devices that lose speed over the nights, and what the fleet does as a whole.

        A series that ended before tonight is none: the device is gone, on another node, or on another driver or
        firmware.
        """
        if len(self.nights) < ENOUGH_NIGHTS:
            return [], []
        self._paces()
        shared = [Drift(FigureKind(*row[:6]), *row[6:]) for row in self.rows(SHARED)]
        paces = {each.kind: each.pace for each in shared}
        found = []
        for kind, *columns in self.rows(f"SELECT kind, {KIND} FROM kinds ORDER BY ALL"):  # noqa: S608
            of = FigureKind(*columns)
            pace = paces.get(of, 0.0)
            lost = f"1 - exp({'' if of.more_is_better else '-'}(pace - ?) * days)"
            query = f"""
                SELECT {SUBJECT}, p.driver, p.vbios, p.nights, since, days, first, pace, error
                FROM paces p JOIN tonight USING (uuid, node, driver, vbios)
                WHERE kind = ? AND last = DATE {literal(self.night)} AND metric = ? AND level = ? AND {lost} > ?
            """  # noqa: S608
            rows = self.rows(query, kind, of.metric, of.level, pace, of.least)
            told = (findings.speed_trend(Pace(of, Subject(*row[:5]), *row[5:]), pace) for row in rows)
            found += [each for each in told if each]
        return sorted(found, key=lambda each: (-each.loss, each.subject.shown, each.kind)), [
            each for each in shared if each.found
        ]

    def _paces(self) -> None:
        """Make the tables of the kinds of figures of tonight, and of the pace of every series of theirs.

        The nights are sorted by node, so that some nodes are read without the others.
        """
        self.execute(f"""
            CREATE OR REPLACE TEMP TABLE kinds AS
            SELECT DISTINCT hash({KIND}) AS kind, {KIND} FROM tonight WHERE {COMPARED}
        """)  # noqa: S608
        query = f"""
            SELECT uuid, node, hash({KIND}) AS kind, driver, vbios, {PACE}
            FROM (SELECT *, epoch(night) / 86400 AS day, ln(value) AS y FROM figures
                  WHERE node BETWEEN ? AND ? AND {COMPARED} AND value > 0)
            GROUP BY ALL HAVING nights >= {ENOUGH_NIGHTS}
        """  # noqa: S608
        nodes = [node for (node,) in self.rows("SELECT DISTINCT node FROM tonight ORDER BY node")]
        for at in range(0, len(nodes), AT_ONCE):
            some = nodes[at : at + AT_ONCE]
            self.execute(
                f"{'INSERT INTO paces' if at else 'CREATE OR REPLACE TEMP TABLE paces AS'} {query}", some[0], some[-1]
            )

    # -- updates

    def updates(self) -> list[Update]:
        """Return what updates of driver and firmware within the nights changed, metric by metric; losses first.

        Which versions are new is told by the metric that most devices have.
        """
        found: list[Update] = []
        common = self.rows(f"SELECT mode(metric) FROM tonight WHERE {COMPARED}")[0][0]  # noqa: S608
        for what in ("driver", "vbios"):
            query = f"""
                CREATE OR REPLACE TEMP TABLE new AS
                WITH known AS (SELECT sku, uuid, {what} AS version, min(night) AS since FROM figures
                               WHERE metric = ? AND {what} <> '' AND {COMPARED} GROUP BY ALL)
                SELECT uuid, version, since FROM known SEMI JOIN
                (SELECT sku, version FROM known GROUP BY ALL HAVING min(since) > DATE {literal(self.nights[0])})
                USING (sku, version)
            """  # noqa: S608
            self.execute(query, common)
            if self.rows("FROM new LIMIT 1"):
                found += self._changes(what)
        return sorted((each for each in found if each.found), key=lambda one: (not one.slower, -abs(one.change)))

    def _changes(self, what: str) -> list[Update]:
        """Return the change of every metric with the update of each device to a version of the table `new`."""
        query = f"""
            WITH ends AS (SELECT uuid, {KIND}, version AS new, any_value(node) AS node,
                                 arg_max({what}, night) FILTER (WHERE night < since) AS old,
                                 median(value) FILTER (WHERE night < since AND {what} <> version) AS before,
                                 median(value) FILTER (WHERE night >= since AND {what} = version) AS after
                          FROM figures JOIN new USING (uuid)
                          WHERE {COMPARED} AND value > 0 AND {what} <> ''
                                AND abs(datediff('day', since, night)) <= {AROUND}
                          GROUP BY uuid, {KIND}, version)
            SELECT {KIND}, old, new, count(*), count(DISTINCT node), median(before), median(after),
                   median(after / before - 1), mad(after / before - 1)
            FROM ends WHERE before > 0 AND after > 0 GROUP BY {KIND}, old, new HAVING count(*) > 1
        """  # noqa: S608
        return [Update(FigureKind(*row[:6]), what, *row[6:]) for row in self.rows(query)]

    # -- verdicts

    def offenders(self, doubtful: Iterable[Fired] = ()) -> list[Offender]:
        """Return the devices that failed in several runs, those with the most first.

        A device that is gone is none. A limit that fires on too many nodes says nothing about a device.
        """
        self.table("doubtful", "sku VARCHAR, metric VARCHAR", [(each.sku, each.metric) for each in doubtful])
        query = f"""
            SELECT {LATEST}, count(DISTINCT run) AS runs, list_sort(list(DISTINCT night)),
                   list_sort(list(DISTINCT metric)), coalesce(list_sort(list(DISTINCT code) FILTER (code <> '')), [])
            FROM figures ANTI JOIN doubtful USING (sku, metric) WHERE status = '{Status.FAIL.value}' AND {PRESENT}
            GROUP BY uuid HAVING runs >= {findings.FAILED_RUNS} ORDER BY runs DESC, node, name
        """  # noqa: S608
        return [Offender(Subject(*row[:5]), *row[5:]) for row in self.rows(query)]

    def repeated(self) -> list[RepeatedMarginal]:
        """Return the metrics that are MARGINAL again on a device that is not gone, those with the most nights first."""
        least, of = findings.MARGINAL_OF
        query = f"""
            WITH marginal AS (FROM figures WHERE status = '{Status.MARGINAL.value}' AND {PRESENT}),
                 last AS (SELECT uuid, max(night, {of}) AS last_nights
                          FROM (SELECT DISTINCT uuid, night FROM figures SEMI JOIN marginal USING (uuid)) GROUP BY uuid)
            SELECT {LATEST}, metric, list_sort(list(DISTINCT night)) AS nights, any_value(len(last_nights))
            FROM marginal JOIN last USING (uuid) WHERE list_contains(last_nights, night)
            GROUP BY uuid, metric HAVING len(nights) >= {least} ORDER BY len(nights) DESC, node, name, metric
        """  # noqa: S608
        return [RepeatedMarginal(Subject(*row[:5]), *row[5:]) for row in self.rows(query)]

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
        return [each for each in every if each.too_often or each.floor is not None or each.ceiling is not None]
