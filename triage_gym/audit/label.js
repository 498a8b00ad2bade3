"use strict";
// Windows arrive in the JSON island, are shown by textContent alone and go back into the saved file as they came.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const ROLES = ["D", "E", "N", "R"];
  const at = (id) => document.getElementById(id);
  const known = new Set(data.rows.map((row) => row.id));
  let labels = new Map();
  let past = [];
  let place = 0;
  let unsaved = false;

  // What would move the cursor, reverse the reading direction or show nothing is shown as its code.
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
  const clean = (text) =>
    text.replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

  function make(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = clean(text);
    return node;
  }

  // ---- what was labelled outlives a closed page where the browser lets it ----
  function restore() {
    let kept;
    try {
      kept = JSON.parse(localStorage.getItem(data.key) || "{}");
    } catch {
      kept = {};
    }
    if (kept === null || typeof kept !== "object") return;
    if (!data.name && typeof kept.name === "string") at("name").value = kept.name.slice(0, 100);
    for (const item of Array.isArray(kept.labels) ? kept.labels : []) {
      if (!Array.isArray(item) || item.length !== 3) continue;
      const [id, role, why] = item;
      if (known.has(id) && ROLES.includes(role) && typeof why === "string") labels.set(id, { role, why });
    }
    unsaved = labels.size > 0;
  }

  function keep() {
    const kept = [...labels].map(([id, label]) => [id, label.role, label.why]);
    try {
      localStorage.setItem(data.key, JSON.stringify({ name: at("name").value, labels: kept }));
    } catch {
      say("This browser keeps nothing for this page: save the file before you close it.");
    }
  }

  const say = (text) => { at("message").textContent = text; };

  // ---- a segment ----
  function pairs(into, list) {
    for (const [action, observation] of list) {
      into.append(make("p", "act around", action), make("div", "obs around", observation));
    }
  }

  function show() {
    const card = at("segment");
    card.replaceChildren();
    const row = data.rows[place];
    const label = row && labels.get(row.id);
    at("why").value = label ? label.why : "";
    at("progress").textContent = `${labels.size} of ${data.rows.length} done`;
    for (const role of ROLES) {
      at(`role-${role}`).disabled = !row;
      at(`role-${role}`).setAttribute("aria-pressed", String(Boolean(label && label.role === role)));
    }
    at("skip").disabled = !row;
    at("undo").disabled = past.length === 0;
    at("save").disabled = labels.size === 0;
    if (!row) {
      card.append(make("h3", "", labels.size === data.rows.length ? "All labelled: save the file." : "That was the last one."));
      return;
    }
    const w = row.window;
    const earlier = [...w.earlier_actions];
    for (const [action] of [...w.past].reverse()) if (earlier[earlier.length - 1] === action) earlier.pop();
    card.append(make("h3", "", w.task));
    if (earlier.length) card.append(make("p", "earlier", "Earlier: " + earlier.join("; ")));
    pairs(card, w.past);
    if (!w.past.length || w.past[w.past.length - 1][1] !== w.observation) card.append(make("div", "obs around", w.observation));
    const own = make("div", "this");
    own.append(make("p", "act", w.action), make("div", "obs", w.next_observation));
    card.append(own);
    pairs(card, w.future);
  }

  // The next one without a label, from here on or else from the beginning; past the end when there is none.
  function next() {
    const n = data.rows.length;
    for (let i = 1; i <= n; i++) {
      const candidate = (place + i) % n;
      if (!labels.has(data.rows[candidate].id)) return candidate;
    }
    return n;
  }

  function answer(role) {
    const row = data.rows[place];
    if (!row) return;
    past.push({ place, before: labels.get(row.id) });
    labels.set(row.id, { role, why: at("why").value.trim() });
    unsaved = true;
    place = next();
    keep();
    show();
  }

  function skip() {
    if (!data.rows[place]) return;
    past.push({ place, before: labels.get(data.rows[place].id) });
    place = next();
    show();
  }

  function undo() {
    const last = past.pop();
    if (!last) return;
    place = last.place;
    const id = data.rows[place].id;
    if (last.before) labels.set(id, last.before);
    else labels.delete(id);
    unsaved = true;
    keep();
    show();
  }

  // ---- the file: the form that triage-gym reads ----
  function save() {
    const name = at("name").value.trim();
    const taken = data.taken.includes(name) || data.taken.includes(name.split(":")[0]);
    if (!name || taken || clean(name) !== name) {
      const why = taken ? `Please choose another name: ${name} is not a person's.` : "Please choose another name.";
      say(name ? why : "Please give your name first: the labels are kept under it.");
      at("name").focus();
      return;
    }
    const lines = data.rows.filter((row) => labels.has(row.id)).map((row) =>
      JSON.stringify({
        schema: data.schema, id: row.id, window: row.window, labels: { [name]: labels.get(row.id) },
        gold: null, success: null, delta: null, note: "", origin: {},
      }) + "\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(lines, { type: "application/x-ndjson" }));
    link.download = `labels-${name.replace(/[^A-Za-z0-9_-]+/g, "_")}.jsonl`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    unsaved = false;
    say("");
  }

  for (const role of ROLES) at(`role-${role}`).addEventListener("click", () => answer(role));
  at("skip").addEventListener("click", skip);
  at("undo").addEventListener("click", undo);
  at("save").addEventListener("click", save);
  at("name").addEventListener("change", keep);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target instanceof HTMLInputElement) {
      if (event.key === "Enter" || event.key === "Escape") event.target.blur();
      return;
    }
    const key = event.key.toLowerCase();
    if (ROLES.includes(key.toUpperCase())) answer(key.toUpperCase());
    else if (key === "s") skip();
    else if (key === "u") undo();
    else if (key === "w") at("why").focus();
    else return;
    event.preventDefault();
  });
  window.addEventListener("beforeunload", (event) => { if (unsaved) event.preventDefault(); });

  at("name").value = data.name;
  restore();
  place = data.rows.length - 1;
  place = next();
  show();
})();
