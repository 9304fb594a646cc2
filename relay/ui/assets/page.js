// The pages work without this. It keeps what is shown up to date, counts down,
// asks in a dialog instead of on a page of its own, and sorts by dragging.
"use strict";

const body = document.body;
document.documentElement.classList.add("js");

function all(selector, root = document) { return [...root.querySelectorAll(selector)]; }

function say(text) { document.getElementById("news").textContent = text; }

function toast(text, tone) {
  const box = document.createElement("p");
  box.className = "toast tone-" + tone;
  box.textContent = text;
  const toasts = document.getElementById("toasts");
  toasts.append(box);
  while (toasts.children.length > 3) toasts.firstChild.remove();
  setTimeout(() => box.remove(), 8000);
}

// ---- time ----

function span(seconds) {
  const s = Math.max(0, Math.round(seconds)), two = (n) => String(n).padStart(2, "0");
  if (s < 60) return s + " s";
  const pair = (n, unit, rest, smaller) => n + " " + unit + (rest ? " " + two(rest) + " " + smaller : "");
  if (s < 3600) return pair(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 172800) return pair(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return Math.floor(s / 86400) + " days";
}

function ago(seconds) {
  if (seconds < 2) return "just now";
  if (seconds < 60) return Math.floor(seconds) + " s ago";
  if (seconds < 3600) return Math.floor(seconds / 60) + " min ago";
  if (seconds < 172800) return Math.floor(seconds / 3600) + " h ago";
  return Math.floor(seconds / 86400) + " days ago";
}

// The server's words hold at the moment they come; from then on this clock counts,
// by how much time passes and not by what the browser believes the time is.
const ends = new WeakMap();

function tick() {
  const now = performance.now() / 1000;
  for (const el of all("[data-left]")) {
    if (!ends.has(el)) ends.set(el, now + Number(el.dataset.left));
    el.textContent = span(ends.get(el) - now);
  }
  for (const el of all("time[data-ago], time[data-for]")) {
    const lasts = "for" in el.dataset;
    if (!ends.has(el)) ends.set(el, now - spoken(el.textContent));
    el.textContent = lasts ? "for " + span(now - ends.get(el)) : ago(now - ends.get(el));
  }
  for (const el of all("time[data-clock]")) {
    el.textContent = new Date(el.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
    el.removeAttribute("data-clock");
  }
}

function spoken(text) {
  const unit = { s: 1, min: 60, h: 3600, days: 86400 };
  return [...text.matchAll(/(\d+) (s|min|h|days)\b/g)].reduce((sum, [, n, word]) => sum + n * unit[word], 0);
}

tick();
setInterval(tick, 1000);

// ---- what is shown now ----

const refresh = body.dataset.refresh;
let newest = document.getElementById("newest")?.dataset.id || "0";
let busy = false, again = false, rest = 1000;

async function update() {
  if (busy) { again = true; return; }
  busy = true;
  const began = performance.now();
  try {
    const answer = await fetch(refresh, { credentials: "same-origin" });
    if (new URL(answer.url).pathname.endsWith("/login")) { location.reload(); return; }
    if (answer.ok) show(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch { state("wait", "reconnecting"); }
  // A page that is slow to make is not asked for all the time.
  rest = Math.max(1000, 10 * (performance.now() - began));
  setTimeout(() => { busy = false; if (again) { again = false; update(); } }, rest);
}

function show(page) {
  const fresh = all("[data-live]", page), known = all("[data-live]");
  const ids = (list) => list.map((el) => el.id).filter((id) => id !== "newest").join(" ");
  if (ids(fresh) === ids(known) || body.dataset.refresh !== location.pathname + location.search) {
    for (const el of fresh) swap(document.getElementById(el.id), el);
  } else {
    // Something has come or gone. What is typed and what is chosen is left alone.
    swap(document.getElementById("main"), page.getElementById("main"));
  }
  tick();
  announce(page.getElementById("newest"));
}

function swap(old, el) {
  if (!old || old.id === "newest" || old.innerHTML === el.innerHTML) return;
  const chosen = getSelection();
  if (chosen && !chosen.isCollapsed && old.contains(chosen.anchorNode)) return; // somebody copies it
  const active = document.activeElement;
  if (old.contains(active) && active.matches("input, select, textarea")) return;
  const focused = old.contains(active) && active !== old ? active.getAttribute("href") : null;
  const seen = new Set(all("[data-id]", old).map((e) => e.dataset.id));
  old.replaceChildren(...el.childNodes);
  old.className = el.className;
  if (seen.size) all("[data-id]", old).forEach((e) => e.classList.toggle("fresh", !seen.has(e.dataset.id)));
  if (focused !== null) all("a", old).find((a) => a.getAttribute("href") === focused)?.focus({ preventScroll: true });
}

function announce(el) {
  if (!el || el.dataset.id === newest) return;
  newest = el.dataset.id;
  say(el.textContent);
  toast(el.textContent, el.dataset.tone);
}

function state(name, text) {
  const el = document.getElementById("live");
  if (!el || el.dataset.state === name) return;
  el.dataset.state = name;
  el.textContent = text;
}

let sources = [];

// A hidden page gives its connections back: browsers have few for one server.
function listen() {
  sources.forEach((s) => s.close());
  sources = [];
  if (!refresh || document.hidden) return;
  sources = ["events", "snapshot"].map((name) => {
    const s = new EventSource("/edge/ui/live/" + name);
    s.onopen = () => { if (sources.every((o) => o.readyState === EventSource.OPEN)) state("on", "live"); };
    s.onerror = () => {
      state("wait", "reconnecting");
      if (s.readyState === EventSource.CLOSED) setTimeout(() => { if (sources.includes(s)) { update(); listen(); } }, 5000);
    };
    for (const kind of ["event", "snapshot"]) s.addEventListener(kind, update);
    return s;
  });
}

if (refresh) {
  listen();
  document.addEventListener("visibilitychange", () => { listen(); if (!document.hidden) update(); });
  // Counts of connections and heartbeats are no news to anybody.
  setInterval(() => { if (!document.hidden) update(); }, 10000);
}

// ---- questions ----

const dialog = document.getElementById("dialog");

document.addEventListener("click", async (e) => {
  const ask = e.target.closest("a[data-confirm]");
  if (e.target.closest("#dialog [data-close]")) { e.preventDefault(); dialog.close(); return; }
  if (!ask || e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0 || !dialog.showModal) return;
  e.preventDefault();
  try {
    const answer = await fetch(ask.href, { credentials: "same-origin" });
    const question = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("confirm");
    if (!question) throw new Error("no question");
    dialog.replaceChildren(question);
    dialog.showModal();
    (dialog.querySelector("[data-close]") || dialog).focus();
  } catch { location.href = ask.href; }
});

// ---- forms ----

document.addEventListener("submit", (e) => {
  if (!("once" in e.target.dataset)) return;
  if (e.target.dataset.sent) { e.preventDefault(); return; }
  e.target.dataset.sent = "yes";
  setTimeout(() => all("button", e.target).forEach((b) => { b.disabled = true; }));
});

addEventListener("pageshow", (e) => {
  if (!e.persisted) return;
  all("form[data-once]").forEach((f) => { delete f.dataset.sent; all("button", f).forEach((b) => { b.disabled = false; }); });
});

for (const link of all("a[data-field]")) {
  link.addEventListener("click", (e) => {
    const name = link.dataset.field, near = document.getElementById("f-" + name.replace(/\[\d+\]/g, ""));
    const el = document.querySelector('[aria-invalid="true"]') || near || document.getElementById("f-" + name.split(/[.[]/)[0]);
    if (!el) return;
    e.preventDefault();
    el.closest("details")?.setAttribute("open", "");
    el.scrollIntoView({ block: "center" });
    el.focus();
  });
}

document.addEventListener("click", async (e) => {
  const b = e.target.closest("button");
  if (!b) return;
  if ("copy" in b.dataset) await copy(b);
  const boxes = b.closest("[data-pick]") ? all('input[type="checkbox"]', b.closest("[data-pick]")) : [];
  if ("all" in b.dataset) boxes.forEach((box) => { box.checked = true; });
  if ("none" in b.dataset) boxes.forEach((box) => { box.checked = false; });
  if ("bulk" in b.dataset) fill(document.getElementById("bulk").value.trim());
});

async function copy(button) {
  const el = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(el.textContent);
    button.textContent = "Copied";
    say("Copied");
  } catch { // not allowed without TLS: mark it, so that the keyboard can
    getSelection().selectAllChildren(el);
    say("Marked: copy it with the keyboard");
  }
}

function fill(host) {
  const picked = all('input[name="route"]:checked');
  for (const box of picked) document.getElementsByName("host:" + box.value)[0].value = host;
  say(picked.length + " filled in");
}

// ---- the members of a pool ----

const sorted = document.querySelector("[data-sort]");
if (sorted) sort(sorted);

function sort(list) {
  const choice = document.getElementById("f-add"), adder = document.querySelector("[data-add]");
  const row = document.getElementById("row");

  list.addEventListener("click", (e) => {
    const b = e.target.closest("[data-move]");
    if (!b) return;
    e.preventDefault();
    const li = b.closest("li");
    if (b.dataset.move === "remove") { remove(li); return; }
    const up = b.dataset.move === "up", other = up ? li.previousElementSibling : li.nextElementSibling;
    if (other) up ? other.before(li) : other.after(li);
    b.focus();
    tell(li);
  });

  adder.addEventListener("click", (e) => {
    e.preventDefault();
    if (!choice.value) return;
    const li = row.content.firstElementChild.cloneNode(true), name = choice.value;
    li.dataset.gateway = name;
    li.querySelector(".gw").textContent = name;
    li.querySelector('[name="member"]').value = name;
    for (const b of all("[data-move]", li)) {
      b.setAttribute("aria-label", b.dataset.move === "remove" ? "Remove " + name : "Move " + name + " " + b.dataset.move);
    }
    list.append(li);
    choice.selectedOptions[0].remove();
    settle();
    tell(li);
  });

  function remove(li) {
    const name = li.dataset.gateway, next = li.nextElementSibling || li.previousElementSibling;
    li.remove();
    const after = [...choice.options].find((o) => o.value > name);
    if (choice.options.length === 1 && !choice.options[0].value) choice.options[0].remove();
    choice.add(new Option(name, name), after && after.isConnected ? after : null);
    settle();
    (next ? next.querySelector('[data-move="remove"]') : choice).focus();
    say(name + " is removed");
  }

  function settle() {
    if (!choice.options.length) choice.add(new Option("all of them are in it", ""));
    choice.disabled = adder.disabled = !choice.options[0].value;
    document.querySelector(".nobody").hidden = list.children.length > 0;
  }

  function tell(li) {
    say(li.dataset.gateway + " is number " + ([...list.children].indexOf(li) + 1) + " of " + list.children.length);
  }

  list.addEventListener("pointerdown", (e) => {
    const li = e.target.closest("li");
    if (e.button !== 0 || !e.target.closest(".grip") || !li) return;
    e.preventDefault();
    const before = li.nextElementSibling, grip = e.target.closest(".grip");
    grip.setPointerCapture(e.pointerId);
    li.classList.add("dragged");
    const move = (m) => {
      const prev = li.previousElementSibling, next = li.nextElementSibling;
      if (prev && m.clientY < middle(prev)) prev.before(li);
      else if (next && m.clientY > middle(next)) next.after(li);
      else return;
      grip.setPointerCapture(e.pointerId); // moving the row has let it go
    };
    const key = (k) => { if (k.key === "Escape") { list.insertBefore(li, before); stop(); } };
    const stop = () => {
      li.classList.remove("dragged");
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", stop);
      removeEventListener("pointercancel", stop);
      removeEventListener("keydown", key);
      tell(li);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", stop);
    addEventListener("pointercancel", stop);
    addEventListener("keydown", key);
  });

  function middle(el) { const r = el.getBoundingClientRect(); return r.top + r.height / 2; }
}
