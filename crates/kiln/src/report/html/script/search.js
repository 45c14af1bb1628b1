// The search: every trial by its time, failures in lanes, the best so far as a line.

function drawSearch(figure) {
  const trials = study.trials;
  const byTime = study.has_times && document.querySelector('input[name="axis"]:checked')?.value === "time";
  const lanes = [1, 2, 3, 4, 5].filter((kind) => trials.some((t) => t[KIND] === kind));
  const narrow = figure.clientWidth < 560;
  const left = narrow ? 66 : 112, lane = 20, top = 8 + lanes.length * lane + (lanes.length ? 8 : 0);
  const { root, width, height } = canvas(figure, top + (narrow ? 260 : 340) + 44);
  const right = width - 14, bottom = height - 40;

  const times = trials.map((t) => t[NS]).filter((ns) => ns !== null);
  const base = study.search_baseline_ns;
  const all = base ? times.concat(base) : times;
  const low = all.length ? Math.min(...extremes(all)) : 1, high = all.length ? Math.max(...extremes(all)) : 10;
  const pad = (high / low) ** 0.05 * 1.01;
  const y = logarithmic(low / pad, high * pad, bottom, top);
  const horizontal = (t) => (byTime ? t[ENDED] : t[NUMBER]);
  const last = trials.length ? horizontal(trials[trials.length - 1]) : 1;
  const x = linear(byTime ? 0 : Math.min(1, last - 1), last, left + 8, right - 8);

  if (all.length) {
    const values = logTicks(y.low, y.high, narrow ? 5 : 7);
    leftAxis(root, y, values, nsLabels(values), left, right);
  }
  const steps = ticks(x.low, x.high, narrow ? 4 : 8).filter((v) => byTime || Number.isInteger(v));
  bottomAxis(root, x, steps, steps.map((v) => (byTime ? humanMs(v) : String(v))), bottom);
  add(root, "text", { class: "label", x: right, y: height - 6, "text-anchor": "end" }, byTime ? "time since the study began" : "trial");

  lanes.forEach((kind, i) => {
    const line = 8 + i * lane + lane / 2;
    const count = trials.filter((t) => t[KIND] === kind).length;
    add(root, "line", { class: "grid", x1: left, x2: right, y1: line, y2: line });
    marks(root, kind, [[8, line]]);
    add(root, "text", { class: "tick", x: 18, y: line + 4 }, narrow ? `${LANES[kind]} ${count}` : `${study.kinds[kind]} ${count}`);
  });

  const laneOf = (kind) => 8 + lanes.indexOf(kind) * lane + lane / 2;
  const points = trials.map((t) => [x(horizontal(t)), t[NS] === null ? laneOf(t[KIND]) : y(t[NS])]);
  if (base) {
    add(root, "line", { class: "baseline", x1: left, x2: right, y1: y(base), y2: y(base) });
    add(root, "text", { class: "note", x: right - 2, y: y(base) - 6, "text-anchor": "end" }, `baseline ${humanNs(base)}`);
  }
  for (let kind = 5; kind >= 0; kind--) {
    const chosen = points.filter((_, i) => trials[i][KIND] === kind);
    if (!chosen.length) continue;
    const drawn = marks(root, kind, chosen);
    drawn.setAttribute("data-count", chosen.length);
    if (kind === 0) drawn.style.strokeWidth = dotSize(chosen.length, 5.5);
  }
  bestLine(root, trials, points, right);

  const winner = trials.findIndex((t) => t[NUMBER] === study.winner);
  if (winner >= 0 && trials[winner][NS] !== null) {
    const [wx, wy] = points[winner];
    add(root, "circle", { class: "winner-ring", cx: wx, cy: wy, r: 8 });
    const after = wx > width - 120;
    add(root, "text", { class: "note strong", x: after ? wx - 13 : wx + 13, y: wy + 16, "text-anchor": after ? "end" : "start" },
      `winner ${humanNs(trials[winner][NS])}`);
  }
  const ring = add(root, "circle", { class: "ring", r: 7, visibility: "hidden" });
  pickable(figure, root, {
    nearest: (px, py) => nearestPoint(points, px, py, 40),
    position: (i) => points[i],
    order: () => trials.map((_, i) => i),
    highlight: (i) => {
      ring.setAttribute("visibility", i < 0 ? "hidden" : "visible");
      if (i >= 0) { ring.setAttribute("cx", points[i][0]); ring.setAttribute("cy", points[i][1]); }
    },
  });
}

const LANES = ["", "wrong", "crash", "time", "build", "gate"];

function bestLine(root, trials, points, right) {
  let best = Infinity, path = "", at = 0;
  trials.forEach((t, i) => {
    if (t[NS] === null || t[NS] >= best) return;
    best = t[NS];
    const [px, py] = points[i].map(short);
    path += path ? `H${px}V${py}` : `M${px} ${py}`;
    at = px;
  });
  if (path) add(root, "path", { class: "best", d: `${path}H${short(Math.max(at, right))}` });
}

// `Math.min(...values)` fails on very long lists.
function extremes(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  return [low, high];
}
