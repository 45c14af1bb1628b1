// Parallel coordinates: a line per measured config, over the tunables to its time.

// Configs from slow to fast in five groups, given by where each ends: the few that are fast should stand out.
const ends = (count) => {
  const fast = Math.max(1, Math.min(0.1 * count, 30));
  return [0.4 * (count - fast), 0.7 * (count - fast), 0.9 * (count - fast), count - fast, count];
};

function drawParallel(figure) {
  const axes = study.tunables;
  const measured = study.trials.map((t, i) => i).filter((i) => study.trials[i][NS] !== null);
  if (!axes.length || !measured.length) { figure.replaceChildren(); html(figure, "p", "", "Nothing varied."); return; }
  const narrow = figure.clientWidth < 560;
  const gap = narrow ? 27 : 60, top = 92, left = 12 + 6.5 * Math.max(3, ...axes[0].values.map((v) => Math.min(7, v.length))), margin = narrow ? 54 : 70;
  const { root, width, height } = canvas(figure, narrow ? 380 : 420, left + axes.length * gap + margin);
  const bottom = height - 18;
  const at = axes.map((_, i) => left + (i * (width - left - margin)) / axes.length);
  const timeAt = width - margin;
  const times = measured.map((i) => study.trials[i][NS]);
  const [low, high] = extremes(times);
  const y = logarithmic(low, high > low ? high : low * 1.01, bottom, top);

  const step = axes.map((axis) => (bottom - top) / Math.max(1, axis.values.length));
  const level = (axis, value) => bottom - (value + 0.5) * step[axis];
  const line = (i) => {
    const t = study.trials[i];
    const points = t[CONFIG].map((value, axis) => [at[axis], level(axis, value ?? 0) + spread(t[NUMBER] * 31 + axis) * Math.min(step[axis] * 0.5, 26)]);
    points.push([timeAt, y(t[NS])]);
    return points;
  };
  const lines = measured.map(line);

  const ranked = measured.map((_, k) => k).sort((a, b) => times[b] - times[a]);
  const groups = ends(ranked.length);
  const paths = groups.map(() => "");
  ranked.forEach((k, rank) => {
    paths[groups.findIndex((end) => rank < end)] += `M${lines[k].map((p) => p.map(short).join(" ")).join("L")}`;
  });
  const crowd = Math.min(1, Math.max(0.12, 60 / measured.length));
  paths.forEach((d, group) => {
    if (d) add(root, "path", { class: `config group-${group}`, d, "stroke-opacity": group === 4 ? 0.8 : 0.7 * crowd * (group + 1) / 4 });
  });
  add(root, "path", { class: "config fastest", d: `M${lines[ranked[ranked.length - 1]].map((p) => p.map(short).join(" ")).join("L")}` });
  const marked = add(root, "path", { class: "config marked", visibility: "hidden" });

  axes.forEach((axis, i) => {
    add(root, "line", { class: "axis", x1: at[i], x2: at[i], y1: top, y2: bottom });
    add(root, "text", { class: "axis-name", transform: `translate(${at[i] + 4} ${top - 10}) rotate(-40)` }, axis.name);
    const every = Math.ceil(axis.values.length / 12);
    axis.values.forEach((value, v) => {
      if (v % every) return;
      const label = add(root, "text", { class: "tick halo", x: at[i] - 5, y: level(i, v) + 4, "text-anchor": "end" }, clipped(value, 7));
      if (value.length > 7) add(label, "title", {}, value);
    });
  });
  add(root, "line", { class: "axis", x1: timeAt, x2: timeAt, y1: top, y2: bottom });
  add(root, "text", { class: "axis-name", transform: `translate(${timeAt + 4} ${top - 10}) rotate(-40)` }, "time");
  const values = logTicks(low, high, 6);
  const labels = nsLabels(values);
  values.forEach((v, i) => add(root, "text", { class: "tick", x: timeAt + 7, y: y(v) + 4 }, labels[i]));

  const columns = [...at, timeAt];
  pickable(figure, root, {
    nearest: (px, py) => {
      let best = -1, distance = 14;
      const after = columns.findIndex((c) => c >= px);
      const to = after < 0 ? columns.length - 1 : Math.max(1, after);
      const part = Math.max(0, Math.min(1, (px - columns[to - 1]) / (columns[to] - columns[to - 1])));
      lines.forEach((points, k) => {
        const d = Math.abs(points[to - 1][1] + part * (points[to][1] - points[to - 1][1]) - py);
        if (d < distance) { distance = d; best = measured[k]; }
      });
      return best;
    },
    position: (i) => lines[Math.max(0, measured.indexOf(i))][axes.length],
    order: () => ranked.map((k) => measured[k]).reverse(),
    highlight: (i) => {
      const k = measured.indexOf(i);
      marked.setAttribute("visibility", k < 0 ? "hidden" : "visible");
      if (k >= 0) marked.setAttribute("d", `M${lines[k].map((p) => p.join(" ")).join("L")}`);
    },
  });
}

// In the middle: values that differ tend to do so at an end.
function clipped(text, most) {
  const kept = most - 1, tail = Math.floor(kept / 2);
  return text.length > most ? `${text.slice(0, kept - tail)}…${text.slice(text.length - tail)}` : text;
}
