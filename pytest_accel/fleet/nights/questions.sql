-- What an operator asks of the nights of a fleet: one view for each question, for DuckDB.
--
--   pytest-accel store sql STORE | duckdb fleet.db      and then SELECT * FROM behind, here, in Grafana or in Superset
--
-- The lines that `store sql` prints before these make the views `every` (the figures of the nights), `every_run` (their
-- runs) and `locations` (node, kind, location: what stands in locations.csv). The last night is "tonight".
--
-- These views compare and count. The table of distances in docs/verdicts.md says how far is too far: a view whose name
-- begins with `may_be_` has every row that it may find, and `store show` tells those that it does find.
-- VIEW /* kept */ is a table in `store show`, which asks for it several times.

CREATE MACRO speed(value, unit) AS CASE WHEN unit IN ('s', 'ms', 'us') THEN 1 / value ELSE value END;
CREATE MACRO spread_of(mad, n, middle) AS 1.4826 * mad * n / (n - 0.8) / middle;
CREATE MACRO one_node(a, b) AS a.node = b.node
    AND (a.uuids = '' OR b.uuids = '' OR list_has_any(string_split(a.uuids, ' '), string_split(b.uuids, ' ')));
CREATE MACRO shown(node, name) AS CASE WHEN name = 'node' THEN node ELSE node || ' ' || name END;
CREATE MACRO kind_of(sku, platform, level, metric, unit, method) AS hash(sku, platform, level, metric, unit, method);

-- tonight: a run counts unless a later one of the same node, SKU and level has ended

CREATE VIEW /* kept */ last AS SELECT max(night) AS night FROM every_run;
CREATE VIEW /* kept */ runs AS FROM every_run WHERE night = (SELECT night FROM last);
CREATE VIEW /* kept */ replaced AS
SELECT DISTINCT a.id FROM runs a JOIN runs b ON a.node = b.node AND a.level = b.level AND a.sku = b.sku
WHERE one_node(a, b) AND b.state = 'finished' AND (b.started, b.id) > (a.started, a.id);
CREATE VIEW tonight AS
SELECT *, kind_of(sku, platform, level, metric, unit, method) AS kind
FROM every WHERE night = (SELECT night FROM last) AND run NOT IN (FROM replaced);
CREATE VIEW /* kept */ doubled_nights AS
SELECT uuid, night FROM (SELECT night, node, unnest(string_split(uuids, ' ')) AS uuid FROM every_run)
WHERE uuid <> '' GROUP BY ALL HAVING min(node) <> max(node);
CREATE VIEW figures AS
SELECT *, kind_of(sku, platform, level, metric, unit, method) AS kind
FROM every ANTI JOIN doubled_nights USING (uuid, night);
CREATE VIEW /* kept */ kinds AS SELECT DISTINCT kind, sku, platform, level, metric, unit, method FROM tonight;

-- 1 devices, nodes, racks and whatever locations.csv names behind their like, tonight

CREATE VIEW /* kept */ groups AS
SELECT kind, driver, count(*) AS devices, count(DISTINCT run) AS nodes, median(value) AS middle, mad(value) AS mad
FROM tonight WHERE method <> '' AND value > 0 GROUP BY GROUPING SETS ((kind, driver), (kind));
CREATE VIEW enough AS
SELECT *, spread_of(mad, devices, middle) AS spread FROM groups WHERE devices >= 20 AND nodes >= 4;
CREATE VIEW compared AS
SELECT t.*, coalesce(own.middle, pooled.middle) AS middle, coalesce(own.spread, pooled.spread) AS spread,
       coalesce(own.devices, pooled.devices) AS like_it,
       1 - speed(value, unit) / speed(coalesce(own.middle, pooled.middle), unit) AS lost
FROM tonight t JOIN (SELECT * EXCLUDE (driver) FROM enough WHERE driver IS NULL) pooled USING (kind)
     LEFT JOIN (FROM enough WHERE driver IS NOT NULL) own ON own.kind = t.kind AND own.driver = t.driver
WHERE t.method <> '' AND t.value > 0;
CREATE VIEW /* kept */ all_locations AS
SELECT node, kind AS what, location FROM locations UNION SELECT node, 'node', node FROM every_run;
CREATE VIEW /* kept */ of_locations AS  -- the error of a median of n values is 1.2533 / sqrt(n) of their spread
SELECT what, location, kind, 1 - median(lost) AS share, count(*) AS devices, median(spread) * 1.2533 / sqrt(count(*)) AS error
FROM compared JOIN all_locations USING (node) WHERE name <> 'node' GROUP BY what, location, kind HAVING count(*) >= 4;
CREATE VIEW /* kept */ may_be_behind AS
SELECT 'device' AS what, shown(node, name) AS location, uuid, serial, node, kind, value, middle, lost, spread, like_it, status
FROM compared WHERE lost > greatest(0.01, 4 * spread)
UNION ALL
SELECT what, location, what || ' ' || location, '', CASE what WHEN 'node' THEN location ELSE '' END, kind, NULL, NULL,
       1 - share / g.middle, greatest(g.spread, error), g.like_it, ''
FROM of_locations JOIN (SELECT what, kind, median(share) AS middle, count(*) AS like_it,
                            spread_of(mad(share), count(*), median(share)) AS spread
                     FROM of_locations GROUP BY what, kind HAVING count(*) >= 4) g USING (what, kind)
WHERE 1 - share / g.middle > greatest(0.01, 4 * g.spread, 4 * error);

-- 2 losses: each device against its own past by the fleet's pace, on one driver and firmware; a step has a night

CREATE VIEW /* kept */ paces AS
SELECT kind, driver, night, middle / arg_max(middle, night) OVER (PARTITION BY kind, driver) AS pace, middle
FROM (SELECT kind, driver, night, median(value) AS middle, count(*) AS devices, count(DISTINCT run) AS nodes
      FROM figures WHERE method <> '' AND value > 0 AND kind IN (SELECT kind FROM kinds) GROUP BY kind, driver, night)
QUALIFY min(devices) OVER (PARTITION BY kind, driver) >= 20 AND min(nodes) OVER (PARTITION BY kind, driver) >= 4;
CREATE VIEW steady AS
SELECT uuid, node, kind, driver, vbios, night, night - DATE '2000-01-01' AS day, ln(speed(value / coalesce(pace, 1), unit)) AS y,
       hash(uuid, node, kind, driver, vbios) AS series
FROM figures LEFT JOIN paces USING (kind, driver, night) WHERE method <> '' AND value > 0;
CREATE VIEW /* kept */ may_be_lost AS  -- all series of the fleet, by a number and few sums each: they fit into memory
SELECT series FROM (SELECT *, (SELECT night - 3 FROM last) AS three_ago, (SELECT night - 7 FROM last) AS week_ago FROM steady)
GROUP BY series HAVING count(*) >= 6 AND max(night) = (SELECT night FROM last) AND 0.007 < greatest(
    -regr_slope(y, day) * (max(night) - min(night)),
    avg(y) FILTER (night <= three_ago) - avg(y) FILTER (night > three_ago),
    avg(y) FILTER (night <= week_ago) - avg(y) FILTER (night > week_ago));
CREATE VIEW /* kept */ past AS SELECT * EXCLUDE (series) FROM steady SEMI JOIN may_be_lost USING (series);
CREATE VIEW /* kept */ may_have_lost AS
SELECT uuid, node, kind, driver, vbios, count(*) AS nights, min(night) AS first, -regr_slope(y, day) AS slope,
       max(day) - min(day) AS days,
       greatest(0, regr_syy(y, day) - regr_sxy(y, day) ** 2 / regr_sxx(y, day)) AS rest, regr_sxx(y, day) AS sxx
FROM past GROUP BY uuid, node, kind, driver, vbios;
CREATE VIEW /* kept */ pasts AS
SELECT uuid, node, kind, driver, vbios, night, y FROM past
UNION ALL
SELECT b.uuid, '', b.kind, '', '', f.night, ln(median(speed(f.value, f.unit) / speed(p.middle, f.unit)))
FROM (FROM may_be_behind WHERE what <> 'device') b JOIN all_locations USING (what, location)
     JOIN figures f ON f.node = all_locations.node AND f.kind = b.kind AND f.name <> 'node' AND f.value > 0
     JOIN paces p ON p.kind = f.kind AND p.driver = f.driver AND p.night = f.night
GROUP BY b.uuid, b.kind, f.night;
CREATE VIEW /* kept */ steps AS
SELECT uuid, node, kind, driver, vbios, arg_min(night, rest) AS since, min(rest) AS rest,
       arg_min(before - after, rest) AS lost, sqrt(min(rest) / any_value(n - 2) * arg_min(1 / i + 1 / (n - i), rest)) AS error,
       any_value(n) AS nights
FROM (SELECT *, sum_before / i AS before, (total - sum_before) / (n - i) AS after,
             greatest(0, squares - sum_before ** 2 / i - (total - sum_before) ** 2 / (n - i)) AS rest
      FROM (SELECT *, row_number() OVER w - 1 AS i, count(*) OVER s AS n, sum(y) OVER s AS total, sum(y * y) OVER s AS squares,
                   -- not (w ROWS ...): before 2.0, DuckDB drops the partition of a window that is refined twice
                   sum(y) OVER (s ORDER BY night ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS sum_before
            FROM (SELECT * REPLACE (y - avg(y) OVER (PARTITION BY uuid, node, kind, driver, vbios) AS y) FROM pasts)
            WINDOW s AS (PARTITION BY uuid, node, kind, driver, vbios), w AS (s ORDER BY night))
      WHERE i >= 3 AND n - i >= 2)
GROUP BY uuid, node, kind, driver, vbios;
CREATE VIEW may_be_losses AS
SELECT t.node, shown(t.node, t.name) AS location, uuid, t.serial, kind, sku, platform, level, metric, unit, t.value,
       nights, driver, vbios, since, step, lost, error
FROM (SELECT l.uuid, l.node, l.kind, l.driver, l.vbios, l.nights, coalesce(s.rest <= l.rest, false) AS step,
             CASE WHEN step THEN s.since ELSE l.first END AS since,
             1 - exp(-CASE WHEN step THEN s.lost ELSE slope * days END) AS lost,
             CASE WHEN step THEN s.error ELSE sqrt(l.rest / (l.nights - 2) / sxx) * days END AS error
      FROM may_have_lost l LEFT JOIN steps s USING (uuid, node, kind, driver, vbios))
     JOIN tonight t USING (uuid, node, kind, driver, vbios)
WHERE lost > 0.01 AND (step OR nights >= 10);
CREATE VIEW may_be_drifts AS
SELECT kind, driver, devices, nights, since, 1 - exp(slope * days) AS lost, error * days AS error
FROM (SELECT kind, driver, count(*) AS nights, min(night) AS since, max(day) - min(day) AS days, regr_slope(y, day) AS slope,
             sqrt(greatest(0, regr_syy(y, day) - regr_sxy(y, day) ** 2 / regr_sxx(y, day)) / (count(*) - 2) / regr_sxx(y, day)) AS error
      FROM (SELECT *, epoch(night) / 86400 AS day, ln(speed(middle, unit)) AS y FROM paces JOIN kinds USING (kind))
      GROUP BY kind, driver HAVING count(*) >= 10)
     JOIN (SELECT kind, driver, devices FROM groups WHERE driver IS NOT NULL) USING (kind, driver)
WHERE 1 - exp(slope * days) > 0.01;

-- 3 what an update of driver or firmware changed, five nights before against five after, on the same devices

CREATE VIEW versions AS
SELECT what, version, sku, uuid, min(night) AS since
FROM (SELECT uuid, sku, night, driver, vbios FROM figures
      WHERE metric = (SELECT mode(metric) FROM tonight WHERE method <> '' AND value > 0) AND method <> '')
     UNPIVOT (version FOR what IN (driver, vbios))
WHERE version <> '' GROUP BY ALL;
CREATE VIEW /* kept */ updated AS
SELECT what, version, uuid, since FROM versions SEMI JOIN (
    SELECT what, version, sku FROM versions GROUP BY ALL HAVING min(since) > (SELECT min(night) FROM every_run)
) USING (what, version, sku);
CREATE VIEW may_be_updates AS
SELECT kind, what, old, version AS new, count(*) AS devices, count(DISTINCT node) AS nodes, median(before) AS before,
       median(after) AS after, median(after / before - 1) AS change,
       spread_of(mad(after / before - 1), count(*), 1) * sqrt(1.57 / count(*)) AS error
FROM (SELECT uuid, kind, what, version, any_value(node) AS node,
             arg_max(has, night) FILTER (WHERE night < since) AS old,
             median(value) FILTER (WHERE night < since AND has <> version) AS before,
             median(value) FILTER (WHERE night >= since AND has = version) AS after
      FROM (SELECT f.uuid, f.kind, f.node, f.night, f.value, u.*  EXCLUDE (uuid),
                   CASE u.what WHEN 'driver' THEN f.driver ELSE f.vbios END AS has
            FROM figures f JOIN updated u USING (uuid)
            WHERE f.method <> '' AND f.value > 0 AND abs(datediff('day', u.since, f.night)) <= 5)
      WHERE has <> '' GROUP BY uuid, kind, what, version)
WHERE before > 0 AND after > 0 GROUP BY kind, what, old, version HAVING count(*) >= 4;

-- 4 verdicts over the nights

CREATE VIEW doubtful_limits AS
SELECT sku, platform, level, metric, max(floor) AS floor, min(ceiling) AS ceiling, count(DISTINCT run) AS nodes,
       count(DISTINCT run) FILTER (WHERE status = 'FAIL') AS failing
FROM tonight GROUP BY sku, platform, level, metric HAVING nodes >= 4 AND failing > 0.3 * nodes ORDER BY failing / nodes DESC;
CREATE VIEW present AS
SELECT f.* FROM figures f
WHERE uuid IN (SELECT uuid FROM tonight) OR node IN (SELECT node FROM runs WHERE state <> 'finished');
CREATE VIEW failed_again AS
SELECT shown(arg_max(node, night), arg_max(name, night)) AS location, uuid, arg_max(serial, night) AS serial,
       arg_max(node, night) AS node, count(DISTINCT run) AS runs, list_sort(list(DISTINCT night)) AS nights,
       list_sort(list(DISTINCT metric)) AS metrics, coalesce(list_sort(list(DISTINCT code) FILTER (code <> '')), []) AS codes
FROM present ANTI JOIN doubtful_limits USING (sku, metric) WHERE status = 'FAIL'
GROUP BY uuid HAVING runs >= 2 ORDER BY runs DESC, location;
CREATE VIEW marginal_again AS
SELECT shown(arg_max(node, night), arg_max(name, night)) AS location, uuid, arg_max(serial, night) AS serial,
       arg_max(node, night) AS node, metric, list_sort(list(DISTINCT night)) AS nights, any_value(of) AS of
FROM present JOIN (SELECT uuid, max(night, 3) AS last_nights, count(DISTINCT night) AS of
                   FROM (SELECT DISTINCT uuid, night FROM figures) GROUP BY uuid) USING (uuid)
WHERE status = 'MARGINAL' GROUP BY uuid, metric
HAVING len(nights) >= 3 OR count(DISTINCT night) FILTER (list_contains(last_nights, night)) >= 2
ORDER BY len(nights) DESC, location, metric;

-- 5 who is where, and who is not

CREATE VIEW rejected_before AS
WITH judged AS (FROM every_run WHERE exit IN (0, 1))
SELECT node, night, line FROM judged b
WHERE exit = 1 AND night < (SELECT night FROM last) AND night IN (SELECT max(night, 4).unnest() FROM (SELECT DISTINCT night FROM every_run))
      AND NOT EXISTS (FROM judged j WHERE one_node(j, b) AND (j.night, j.started, j.id) > (b.night, b.started, b.id))
ORDER BY node;
CREATE VIEW absent AS  -- nodes that were there so often, for three nights at least, that their absence is no chance
SELECT last_seen, list_sort(list(node)) AS nodes
FROM (SELECT node, last_seen, count_if(night > last_seen) AS missed,
             any_value(seen) / (greatest(count_if(night <= last_seen), least(3, any_value(before))) + 0.05) AS often
      FROM (SELECT node, max(night) AS last_seen, min(night) AS first_seen, count(DISTINCT night) AS seen
            FROM every_run b WHERE NOT EXISTS (FROM runs r WHERE one_node(r, b)) GROUP BY node)
           JOIN (SELECT DISTINCT night FROM every_run) n ON n.night >= first_seen,
           (SELECT count(DISTINCT night) - 1 AS before FROM every_run)
      GROUP BY node, last_seen)
WHERE (1 - often) ** missed < 0.05 GROUP BY last_seen ORDER BY last_seen DESC;
CREATE VIEW missing_nights AS
SELECT night::DATE AS night
FROM (SELECT unnest(generate_series(min(night)::TIMESTAMP, max(night)::TIMESTAMP, INTERVAL 1 DAY)) AS night FROM every_run)
WHERE night::DATE NOT IN (SELECT night FROM every_run) ORDER BY night;
CREATE VIEW doubled AS
SELECT 'UUID' AS what, uuid AS name, list_sort(list(DISTINCT node)) AS nodes FROM tonight GROUP BY uuid HAVING min(node) <> max(node)
UNION ALL
SELECT 'serial', serial, list_sort(list(DISTINCT shown(node, name))) FROM tonight
WHERE serial <> '' GROUP BY serial HAVING min(uuid) <> max(uuid) ORDER BY ALL;
CREATE VIEW moved AS
SELECT uuid, arg_max(serial, night) AS serial, arg_max(location, night) AS location, arg_min(location, night) AS was,
       arg_max(node, night) AS node, min(night) FILTER (location = now) AS since
FROM (SELECT *, last_value(location) OVER (PARTITION BY uuid ORDER BY night ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS now
      FROM (SELECT *, shown(node, name) AS location FROM (SELECT DISTINCT uuid, night, node, name, serial FROM figures WHERE name <> 'node')))
GROUP BY uuid HAVING min(location) <> max(location) ORDER BY location;
CREATE VIEW unlike AS
SELECT node, metric, what, list_sort(list(DISTINCT name)) AS devices, min(value) AS value, unit, any_value(middle) AS middle, any_value(usual) AS usual
FROM (SELECT node, metric, name, value, t.unit, middle, usual,
             CASE WHEN t.unit <> usual THEN 'another unit' WHEN speed(value, t.unit) > 1.25 * speed(middle, t.unit) THEN 'too fast' END AS what
      FROM tonight t
           JOIN (SELECT sku, platform, level, metric, mode(unit) AS usual, count(DISTINCT node) AS nodes FROM tonight WHERE method <> ''
                 GROUP BY ALL) USING (sku, platform, level, metric)
           LEFT JOIN (SELECT kind, middle FROM enough WHERE driver IS NULL) USING (kind)
      WHERE t.method <> '' AND value > 0 AND nodes >= 4)
WHERE what IS NOT NULL GROUP BY node, metric, what, unit ORDER BY node, metric;

-- 6 with what the rows mean: the kind of a figure in words, and since when a device or a location is behind

CREATE VIEW behind AS
SELECT b.*, k.* EXCLUDE (kind), s.since, s.lost AS step_lost, s.error AS step_error, s.nights
FROM may_be_behind b JOIN kinds k USING (kind)
     LEFT JOIN steps s ON s.uuid = b.uuid AND s.kind = b.kind AND s.node IN ('', b.node);
CREATE VIEW losses AS FROM may_be_losses ORDER BY lost DESC;
CREATE VIEW drifts AS FROM may_be_drifts JOIN kinds USING (kind) ORDER BY lost DESC;
CREATE VIEW updates AS FROM may_be_updates JOIN kinds USING (kind);
CREATE VIEW like_devices AS
SELECT k.*, g.devices, g.nodes, g.middle, spread_of(mad, devices, middle) AS spread
FROM groups g JOIN kinds k USING (kind) WHERE driver IS NULL ORDER BY sku, metric, platform, level, method;
