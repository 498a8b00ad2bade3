"use strict";
// Everything from outside arrives in the JSON island and leaves by textContent alone.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 50;
  const ROLE_NAMES = { D: "decisive progress", E: "useful exploration", N: "no progress", R: "regression" };
  const SVG = "http://www.w3.org/2000/svg";

  function make(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function draw(tag, attributes) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }

  const signed = (x) => (Math.abs(x) < 0.005 ? "" : x < 0 ? "−" : "+") + Math.abs(x).toFixed(2);
  const grouped = (x) => x.toLocaleString("en").replaceAll(",", "\u202f");

  // ---- curves: a cross-hair by pointer or arrow keys, its numbers in the legend ----
  function curves(chart) {
    const name = chart.dataset.chart;
    const series = data.charts[name].series;
    const percent = data.charts[name].percent;
    const outputs = document.querySelectorAll(`output[data-chart="${name}"]`);
    const when = document.querySelector(`.when[data-chart="${name}"]`);
    const right = Math.max(...series.map((s) => s.turns[s.turns.length - 1]));
    const grid = [...new Set(series.flatMap((s) => s.turns))].sort((a, b) => a - b);
    const cross = draw("line", { y1: 14, y2: "100%", class: "cross", visibility: "hidden" });
    chart.append(cross);
    let place = grid.length - 1;

    const nearest = (turns, turn) => {
      let best = 0;
      for (let i = 1; i < turns.length; i++) if (Math.abs(turns[i] - turn) < Math.abs(turns[best] - turn)) best = i;
      return best;
    };
    function show(index, visible) {
      place = Math.min(Math.max(index, 0), grid.length - 1);
      const turn = grid[place];
      series.forEach((s, i) => {
        const value = s.mean[nearest(s.turns, turn)];
        outputs[i].textContent = percent ? `${(100 * value).toFixed(0)} %` : value.toFixed(1);
      });
      when.textContent = `at ${grouped(Math.round(turn))} turns`;
      const x = `${(100 * turn) / right}%`;
      cross.setAttribute("x1", x);
      cross.setAttribute("x2", x);
      cross.setAttribute("visibility", visible ? "visible" : "hidden");
    }
    chart.setAttribute("tabindex", "0");
    chart.addEventListener("pointermove", (event) => {
      const box = chart.getBoundingClientRect();
      show(nearest(grid, ((event.clientX - box.left) / box.width) * right), true);
    });
    chart.addEventListener("pointerleave", () => show(grid.length - 1, false));
    chart.addEventListener("blur", () => show(grid.length - 1, false));
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -grid.length, End: grid.length }[event.key];
      if (!step) return;
      event.preventDefault();
      show(place + step, true);
    });
    show(grid.length - 1, false);
  }
  document.querySelectorAll("svg[data-chart]").forEach(curves);

  // ---- episodes ----
  const list = document.getElementById("episode-list");
  if (!list) return;
  const detail = document.getElementById("episode");
  const count = document.getElementById("episode-count");
  const [previousPage, nextPage] = ["page-previous", "page-next"].map((id) => document.getElementById(id));
  const controls = Object.fromEntries(
    ["arm", "outcome", "role", "type", "search"].map((id) => [id, document.getElementById(`filter-${id}`)]),
  );
  const haystack = data.episodes.map((e) =>
    [e.g, e.k, e.o, e.h ? e.h[3] : "", e.h ? e.h[6] : "", ...e.x.flatMap((x) => [x[0], x[1]])].join("\n").toLowerCase(),
  );
  let shown = [];
  let page = 0;
  let current = data.first;

  function outcome(e) {
    if (e.e !== null) return ["lost", "left out"];
    return e.w ? ["won", "solved"] : ["lost", "not solved"];
  }

  function matches(e, i) {
    const { arm, outcome: how, role, type, search } = controls;
    if (arm.value !== "" && e.a !== Number(arm.value)) return false;
    if (how.value !== "" && e.w !== (how.value === "won")) return false;
    if (type.value !== "" && e.y !== type.value) return false;
    if (role.value === "RS" && !(e.w && e.x.some((x) => x[2] === "R"))) return false;
    if (role.value === "EF" && !(!e.w && e.x.some((x) => x[2] === "E"))) return false;
    if (role.value.startsWith("T") && e.n === 0) return false;
    if (role.value === "TS" && !e.w) return false;
    if (role.value === "?" && !e.x.some((x) => x[5] === "failed")) return false;
    return haystack[i].includes(search.value.trim().toLowerCase());
  }

  function item(index) {
    const e = data.episodes[index];
    const button = make("button");
    button.type = "button";
    button.append(make("span", "goal", e.g || e.k || `episode ${index + 1}`));
    const meta = make("span", "meta");
    const [style, word] = outcome(e);
    meta.append(make("span", style, word), make("span", "", `${e.x.length} turns`));
    meta.append(make("span", "", data.arms[e.a]), make("span", "", `seed ${e.s}`));
    if (e.t !== null) meta.append(make("span", "", `at ${grouped(e.t)}`));
    if (e.n > 0) meta.append(make("span", "", `attempt ${e.n + 1}, from turn ${e.p + 1}`));
    const strip = make("span", "strip");
    strip.setAttribute("aria-hidden", "true");
    for (const x of e.x.slice(0, 80)) strip.append(make("i", `role-${x[2] || "none"}`));
    button.append(meta, strip);
    button.dataset.index = index;
    if (index === current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => open(index, true));
    const row = make("li");
    row.append(button);
    return row;
  }

  function fill() {
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    list.replaceChildren(...shown.slice(page * PAGE, (page + 1) * PAGE).map(item));
    list.scrollTop = 0;
    count.textContent = shown.length
      ? `${grouped(page * PAGE + 1)}–${grouped(Math.min((page + 1) * PAGE, shown.length))} of ${grouped(shown.length)}`
      : "no episode fits";
    previousPage.disabled = page === 0;
    nextPage.disabled = page >= pages - 1;
  }

  function filter() {
    shown = data.episodes.map((_, i) => i).filter((i) => matches(data.episodes[i], i));
    page = Math.max(0, Math.floor(shown.indexOf(current) / PAGE));
    fill();
    if (shown.length && !shown.includes(current)) open(shown[0], false);
  }

  function bar(advantage, scale) {
    const svg = draw("svg", { class: "bar", "aria-hidden": "true" });
    const width = 50 * Math.min(1, Math.abs(advantage) / scale);
    svg.append(
      draw("rect", {
        x: `${advantage < 0 ? 50 - width : 50}%`, y: 0, width: `${width}%`, height: 8,
        class: advantage < 0 ? "down" : "up",
      }),
      draw("line", { x1: "50%", x2: "50%", y1: -2, y2: 10 }),
    );
    return svg;
  }

  // The attempts of a trial that are on the page, in order.
  function tries(index) {
    const trial = data.trials[index];
    if (trial < 0) return [];
    const found = data.episodes.map((_, i) => i).filter((i) => data.trials[i] === trial);
    return found.sort((a, b) => data.episodes[a].n - data.episodes[b].n);
  }

  function trial(index) {
    const row = make("div", "trial");
    row.setAttribute("role", "group");
    row.setAttribute("aria-label", "attempts of this trial");
    for (const i of tries(index)) {
      const e = data.episodes[i];
      const button = make("button", "", `attempt ${e.n + 1}: ${outcome(e)[1]}`);
      button.type = "button";
      if (i === index) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => open(i, true));
      row.append(button);
    }
    return row;
  }

  // What a retry began with, in words; and what the failed attempt did from there on.
  function lineage(index) {
    const e = data.episodes[index];
    const [parent, strategy, restored, remark, pivot, source, text, problem, expert] = e.h;
    const box = make("div", "lineage");
    const kept = e.p === 1 ? "the first turn is a copy" : `the first ${e.p} turns are copies`;
    const where = e.p > 0 ? `from turn ${e.p + 1}: ${kept}` : "from the start";
    box.append(make("p", "", `Retry of attempt ${parent + 1}, ${where}. Restored by ${strategy}: ${restored}.`));
    if (remark) box.append(make("p", "remark", remark));
    const named = pivot < 0 ? [] : [`${source || "the reflection"} named turn ${pivot + 1}`];
    if (expert >= 0) named.push(`the expert turn ${expert + 1}`);
    if (problem) named.push(`the reflection was malformed (${problem})`);
    if (named.length) box.append(make("p", "", `${named.join(", ")}.`));
    if (text) box.append(folded("The reflection as it was written", make("p", "obs", text)));
    const failed = tries(index).map((i) => data.episodes[i]).find((other) => other.n === parent);
    if (failed) {
      const rest = make("ol", "steps");
      const scale = largest(failed);
      rest.append(...failed.x.map((x, i) => step(x, i, failed, scale)).slice(e.p));
      box.append(folded(`What attempt ${parent + 1} did from turn ${e.p + 1} on`, rest));
    }
    return box;
  }

  function folded(title, body) {
    const details = make("details");
    details.append(make("summary", "", title), body);
    return details;
  }

  const largest = (e) => Math.max(1e-9, ...e.x.map((x) => Math.abs(x[3] ?? 0)));

  function step(x, index, e, scale) {
    const [action, answer, role, advantage, why, status] = x;
    const mark = index < e.p ? " copied" : e.h && index === e.p ? " pivot" : "";
    const row = make("li", `role-${role || "none"}${mark}`);
    const badge = make("span", `badge role-${role || "none"}`, role || "?");
    badge.title = role ? ROLE_NAMES[role] : status === "failed" ? "the judge failed here" : "not judged";
    badge.setAttribute("aria-label", badge.title);
    badge.setAttribute("role", "img");
    const body = make("div", "body");
    body.append(make("div", "act", action), make("div", "obs", answer));
    if (why) body.append(make("div", "why", why));
    if (index < e.p) body.append(make("div", "why", "copied from the failed attempt, not trained again"));
    const side = make("div", "adv");
    if (advantage !== null) side.append(make("span", "", signed(advantage)), bar(advantage, scale));
    row.append(make("span", "index", String(index + 1)), badge, body, side);
    return row;
  }

  function open(index, move) {
    current = index;
    const e = data.episodes[index];
    const scale = largest(e);
    const [style, word] = outcome(e);
    const meta = make("div", "meta");
    meta.append(make("span", style, word), make("span", "", `${e.x.length} turns`), make("span", "", data.arms[e.a]));
    meta.append(make("span", "", `seed ${e.s}`));
    if (e.u !== null) meta.append(make("span", "", `update ${e.u}`));
    if (e.t !== null) meta.append(make("span", "", `after ${grouped(e.t)} turns`));
    if (e.n > 0) meta.append(make("span", "", `attempt ${e.n + 1}, from turn ${e.p + 1}`));
    meta.append(make("span", "", `score ${e.c}`));
    if (e.k) meta.append(make("span", "", e.k));
    const title = make("h3", "", e.g || e.k || `episode ${index + 1}`);
    const steps = make("ol", "steps");
    steps.append(...e.x.map((x, i) => step(x, i, e, scale)));
    const parts = [title, meta];
    if (tries(index).length > 1) parts.push(trial(index));
    if (e.h) parts.push(lineage(index));
    if (e.e !== null) parts.push(make("p", "warn", `Left out of training: ${e.e}`));
    if (e.o) parts.push(make("p", "start obs", e.o));
    parts.push(steps, ahead());
    detail.replaceChildren(...parts);
    for (const button of list.querySelectorAll("button")) {
      if (Number(button.dataset.index) === index) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    if (move) history.replaceState(null, "", `#episode-${index + 1}`);
    if (move && matchMedia("(max-width: 900px)").matches) detail.scrollIntoView();
  }

  function go(by) {
    const place = shown.indexOf(current) + by;
    if (place < 0 || place >= shown.length) return;
    if (Math.floor(place / PAGE) !== page) {
      page = Math.floor(place / PAGE);
      fill();
    }
    open(shown[place], true);
    const button = list.querySelector("[aria-current]");
    if (button) button.scrollIntoView({ block: "nearest" });
  }

  function ahead() {
    const row = make("div", "ahead");
    const place = shown.indexOf(current);
    for (const [by, text] of [[-1, "← previous episode"], [1, "next episode →"]]) {
      const button = make("button", "", text);
      button.type = "button";
      button.disabled = place + by < 0 || place + by >= shown.length;
      button.addEventListener("click", () => go(by));
      row.append(button);
    }
    return row;
  }

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea")) return;
    if (event.key === "j") go(1);
    if (event.key === "k") go(-1);
    if (event.key === "/") {
      event.preventDefault();
      controls.search.focus();
    }
  });
  for (const control of Object.values(controls)) control.addEventListener("input", filter);
  previousPage.addEventListener("click", () => { page -= 1; fill(); });
  nextPage.addEventListener("click", () => { page += 1; fill(); });
  const linked = /^#episode-(\d+)$/.exec(location.hash);
  if (linked && data.episodes[Number(linked[1]) - 1]) current = Number(linked[1]) - 1;
  filter();
  if (current >= 0) open(current, false);
  const chosen = list.querySelector("[aria-current]");
  if (chosen) list.scrollTop = chosen.offsetTop - list.offsetTop;
  if (linked) {
    document.getElementById("episodes").scrollIntoView({ behavior: "instant" });
  }
})();
