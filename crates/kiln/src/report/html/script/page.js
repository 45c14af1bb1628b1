// The page: draws every plot, again when its width changes; a live page asks for itself.

const DRAWINGS = {
  "plot-interval": drawInterval,
  "plot-search": drawSearch,
  "plot-effects": drawEffects,
  "plot-parallel": drawParallel,
  "plot-samples": drawSamples,
  "plot-roofline": drawRoofline,
};

function drawAll() {
  const block = document.getElementById("data");
  if (!block) return;
  const begun = performance.now();
  study = JSON.parse(block.textContent);
  plots.length = 0;
  for (const id in DRAWINGS) {
    const figure = document.getElementById(id);
    if (figure) DRAWINGS[id](figure);
  }
  document.documentElement.dataset.drawn = Math.ceil(performance.now() - begun);
}

function again() {
  const index = picked.index;
  if (index >= 0) pick(-1);
  drawAll();
}

let width = innerWidth, waiting = 0;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(again);
});
addEventListener("change", (event) => { if (event.target.name === "axis") again(); });
addEventListener("beforeprint", again);
addEventListener("scroll", () => { if (!tip.hidden && Math.abs(scrollY - picked.scrolled) > 40) pick(-1); }, { passive: true });
drawAll();

const SECONDS_BETWEEN_LOOKS = 2;

// Another state of the study in the place of this one; what the reader chose, and where he is, stays.
function renew(main) {
  const axis = document.querySelector('input[name="axis"]:checked')?.value;
  const open = [...document.querySelectorAll("details")].map((details) => details.open);
  const focused = document.activeElement?.closest(".plot")?.id;
  const at = scrollY;
  document.querySelector("main").replaceWith(main);
  const choice = axis && document.querySelector(`input[name="axis"][value="${axis}"]`);
  if (choice) choice.checked = true;
  document.querySelectorAll("details").forEach((details, i) => { details.open = Boolean(open[i]); });
  drawAll();
  scrollTo(0, at);
  if (focused) document.querySelector(`#${focused} svg`)?.focus({ preventScroll: true });
}

async function look() {
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    // Not under the reader's eyes: a trial that is looked at stays.
    if (picked.index < 0) renew(fresh.querySelector("main"));
    document.body.dataset.live = "yes";
    if (study && study.finished && picked.index < 0) { document.body.dataset.live = "done"; return; }
  } catch (_) {
    document.body.dataset.live = "gone";
  }
  setTimeout(look, 1000 * SECONDS_BETWEEN_LOOKS);
}
if (document.body.dataset.live) setTimeout(look, 1000 * SECONDS_BETWEEN_LOOKS);
