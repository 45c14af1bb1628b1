// The speedup's interval on a line, with what counts as the same and what was asked for.

function drawInterval(figure) {
  const { speedup, low, high, margin, target } = study.interval;
  const { root, width, height } = canvas(figure, 66);
  const same = [1 / (1 + margin), 1 + margin];
  const least = Math.min(low, same[0], target), most = Math.max(high, same[1], target);
  const pad = (most / least) ** 0.08;
  const x = logarithmic(least / pad, most * pad, 6, width - 6);
  const line = 30, bottom = height - 22;
  add(root, "line", { class: "axis", x1: 6, x2: width - 6, y1: bottom, y2: bottom });
  const values = logTicks(x.low, x.high, width < 560 ? 4 : 8).filter((v) => x(v) > 16 && x(v) < width - 20);
  bottomAxis(root, x, values, values.map((v) => `${Number(v.toPrecision(4))}x`), bottom);
  add(root, "rect", { class: "same", x: x(same[0]), width: x(same[1]) - x(same[0]), y: 14, height: bottom - 14 });
  const word = (at, text) => {
    const anchor = at < 60 ? "start" : at > width - 60 ? "end" : "middle";
    add(root, "text", { class: "tick", x: at, y: 10, "text-anchor": anchor }, text);
  };
  word(x(1), "same");
  const isApart = Math.abs(x(target) - x(1)) > 60;
  add(root, "line", { class: "target", x1: x(target), x2: x(target), y1: 14, y2: bottom });
  if (isApart) word(x(target), `target ${target}x`);
  add(root, "line", { class: "interval-bar", x1: x(low), x2: Math.max(x(high), x(low) + 1), y1: line, y2: line });
  for (const end of [low, high]) add(root, "line", { class: "interval-bar", x1: x(end), x2: x(end), y1: line - 6, y2: line + 6 });
  add(root, "circle", { class: "interval-middle", cx: x(speedup), cy: line, r: 5 });
}
