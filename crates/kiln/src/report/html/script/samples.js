// Every sample of baseline and winner, a row per round, with median and interval.

function drawSamples(figure) {
  const sides = study.samples;
  const rounds = Math.max(1, ...sides.map((s) => s.rounds.length));
  const row = Math.max(9, Math.min(16, 80 / rounds)), block = rounds * row + 62;
  const { root, width } = canvas(figure, 2 * block + 6);
  const left = 12, right = width - 12;
  const all = sides.map((s) => extremes(s.rounds.flat()));
  const [low, high] = extremes(all.flat());
  const together = high / low < 1.6;
  sides.forEach((side, n) => {
    const top = n * block, bottom = top + 26 + rounds * row;
    const [from, to] = together ? [low, high] : all[n];
    const pad = (to - from || from * 0.01) * 0.04;
    const x = linear(from - pad, to + pad, left, right);
    const kind = n === 0 ? "side-baseline" : "side-winner";
    add(root, "text", { class: "panel-name", x: left, y: top + 15 }, side.name);
    add(root, "text", { class: "tick", x: left + 74, y: top + 15 },
      `${humanNs(side.ns)}  [${humanNs(side.interval[0])}, ${humanNs(side.interval[1])}]`);
    const steps = ticks(x.low, x.high, width < 560 ? 3 : 7);
    bottomAxis(root, x, steps, nsLabels(steps), bottom + 4, top + 22);
    add(root, "rect", { class: `band ${kind}`, x: x(side.interval[0]), width: Math.max(1.5, x(side.interval[1]) - x(side.interval[0])), y: top + 22, height: bottom - top - 18 });
    add(root, "line", { class: `middle ${kind}`, x1: x(side.ns), x2: x(side.ns), y1: top + 22, y2: bottom + 4 });
    side.rounds.forEach((samples, r) => {
      const path = samples.map((ns) => `M${short(x(ns))} ${short(top + 26 + (r + 0.5) * row)}v.01`).join("");
      add(root, "path", { class: `sample ${kind}`, d: path, "data-count": samples.length });
    });
  });
  if (!together) add(root, "text", { class: "label", x: right, y: 2 * block + 2, "text-anchor": "end" }, "each with an axis of its own: they are too far apart for one");
}
