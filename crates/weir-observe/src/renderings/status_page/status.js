// Keeps the status page current: asks for /api/overview once a second, writes the figures into their places, draws the graphs, and sends
// changes of servers. The markup is made by Weir; where parts have come or gone, it is loaded from there anew.
"use strict";
(() => {
  const NOTHING = "–", FAILURES_MAX = 1000, FAILURES_LOOKED_AT = 200;
  const token = document.querySelector("meta[name=weir-page-token]")?.content;
  const main = document.getElementById("main");
  const state = { shape: null, places: [], overview: null, failures: 0, failuresMax: 20, picked: new Set() };
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Without the name and password in the address of the page: `fetch` rejects those.
  const ask = (path, options) => fetch(location.origin + path, options);

  // The formats: the same as those of the server, see format.rs.
  const count = n => Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const rate = n => n < 9.95 ? n.toFixed(1) : count(n);
  const bytes = n => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    for (; n >= 1024 && unit + 1 < units.length; unit++) n /= 1024;
    return n.toFixed(unit > 0 && n < 99.95 ? 1 : 0) + "\u00a0" + units[unit];
  };
  const micros = us => {
    if (us == null) return NOTHING;
    if (us < 1000) return us + "\u00a0µs";
    const [n, unit] = us < 999950 ? [us / 1e3, "ms"] : [us / 1e6, "s"];
    return n.toFixed(n < 99.95 ? 1 : 0) + "\u00a0" + unit;
  };
  const lasting = ms => {
    const s = Math.floor(Math.max(0, ms) / 1000);
    for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (s >= 2 * unit) return Math.floor(s / unit) + "\u00a0" + name;
    return s + "\u00a0s";
  };
  const formats = {
    count, rate, bytes, micros,
    percent: n => n == null ? NOTHING : n.toFixed(0) + "\u00a0%",
    text: text => text ?? "",
    since: ms => lasting(state.overview.process.at_ms - ms),
    since_seconds: s => lasting(state.overview.process.at_ms - s * 1000),
    named: list => list?.length ? list.map(({ name, count: n }) => name + " " + count(n)).join(", ") : "none",
  };

  const look = (value, path) => path.split(".").reduce((value, key) => value?.[key], value);
  // What steers or turns the text around it is shown by its number, see printable.rs.
  const clean = text => String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g,
    char => "\\u{" + char.charCodeAt(0).toString(16) + "}");
  const put = (element, text) => { const shown = clean(text); if (element.textContent !== shown) element.textContent = shown; };

  // Values with more than one text.
  const writers = {
    status: (element, status) => { put(element, status); if (element.dataset.is !== status) element.dataset.is = status; },
    panic: (element, is) => { element.hidden = !is; },
    some: (element, n) => { element.hidden = !(n > 0); },
    errors: (element, n) => { put(element, rate(n)); element.parentNode.classList.toggle("some", n > 0); },
    responses: (element, n) => { put(element, count(n)); element.parentNode.classList.toggle("some", n > 0); },
    meter: (element, value) => {
      element.max = Math.max(1, ...state.overview.workers.map(worker => worker.exchanges_rate.now));
      element.value = value;
    },
    reasons: (list, failures) => {
      const text = JSON.stringify(failures);
      if (list.dataset.text === text) return;
      list.dataset.text = text;
      list.previousElementSibling?.classList.contains("none") && (list.previousElementSibling.hidden = failures.length > 0);
      list.replaceChildren(...failures.map(({ reason, count: n }) => {
        const link = Object.assign(document.createElement("a"), { href: "/failures/" + encodeURIComponent(reason), textContent: reason + " " });
        link.append(Object.assign(document.createElement("b"), { textContent: count(n) }));
        const item = document.createElement("li");
        item.append(link);
        return item;
      }));
    },
  };

  // Parts that have come or gone change the shape, and with it the markup.
  const shapeOf = overview => JSON.stringify([
    overview.config.generation, overview.page, overview.process.allows_changes, overview.workers.length,
    overview.listeners.map(listener => [listener.name, listener.routes.length]),
    overview.upstreams.map(upstream => [upstream.name, upstream.queued > 0, upstream.retries_refused.length > 0,
      upstream.servers.map(server => [server.name, server.status === "leaving", server.probes == null])]),
  ]);

  const collect = () => {
    state.places = [...document.querySelectorAll("[data-v]")].map(element => ({
      element, path: element.dataset.v, format: element.dataset.f,
      at: element.closest("[data-at]")?.dataset.at ?? "", fold: element.closest("summary") ? null : element.closest("details"),
    }));
    for (const control of all("button[data-server], [data-pick], [data-pick-all]")) control.hidden = false;
    list.collect();
    document.getElementById("failures-all").onclick = () => { state.failuresMax = FAILURES_MAX; recent().catch(() => {}); };
    for (const graphs of document.querySelectorAll(".graphs")) graphs.hidden = false;
  };

  const write = overview => {
    state.overview = overview;
    const parts = new Map();
    for (const { element, path, format, at, fold } of state.places) {
      if (fold && !fold.open) continue;
      if (!parts.has(at)) parts.set(at, look(overview, at));
      const value = look(parts.get(at), path);
      if (value === undefined) continue;
      writers[format] ? writers[format](element, value) : put(element, formats[format](value));
    }
    tiles(overview);
    list.write(overview);
  };

  const sum = (list, of) => list.reduce((sum, one) => sum + of(one), 0);
  const most = list => { const some = list.filter(n => n != null); return some.length ? Math.max(...some) : null; };
  const tiles = ({ process, listeners, upstreams, page }) => {
    const scope = page.pages > 1 ? " on this page" : "";
    const shown = {
      requests: rate(sum(listeners, one => one.rates.requests.now)),
      "requests-below": "peak " + rate(sum(listeners, one => one.rates.requests.peak)),
      failures: rate(sum(listeners, one => one.rates.failures.now)),
      "failures-below": "peak " + rate(sum(listeners, one => one.rates.failures.peak)),
      p99: micros(most(upstreams.map(one => one.response_time.p99_us))),
      "p99-below": "P50 " + micros(most(upstreams.map(one => one.response_time.p50_us))) + scope,
      connections: count(process.connections_open.now),
      "connections-below": "peak " + count(process.connections_open.peak) + " of " + count(process.connections_max),
      waiting: count(sum(upstreams, one => one.queue_length.now)),
      "waiting-below": "peak " + count(sum(upstreams, one => one.queue_length.peak)) + scope,
      servers: count(sum(upstreams, one => one.servers_usable)),
      "servers-below": "of " + count(sum(upstreams, one => one.servers_total)) + scope,
    };
    for (const [name, text] of Object.entries(shown)) {
      const element = document.querySelector(`[data-t="${name}"]`);
      if (element) put(element, text);
    }
  };

  // Graphs: 120 seconds, the last at the right.
  const SECONDS = 120, HEIGHT = 40;
  const SVG = "http://www.w3.org/2000/svg";
  const path = (svg, name) => {
    let found = svg.querySelector("." + name);
    if (!found) { found = document.createElementNS(SVG, "path"); found.setAttribute("class", name); svg.append(found); }
    return found;
  };
  const line = (values, top) => {
    let text = "", pen = "M";
    const start = SECONDS - values.length;
    values.forEach((value, index) => {
      if (value == null) { pen = "M"; return; }
      text += `${pen}${start + index + 0.5} ${(HEIGHT - value / top * (HEIGHT - 3)).toFixed(2)}`;
      pen = "L";
    });
    return text;
  };
  const area = (values, top) => values.length < 2 ? ""
    : line(values, top) + `L${SECONDS - 0.5} ${HEIGHT}L${SECONDS - values.length + 0.5} ${HEIGHT}Z`;

  // Colours of the heat map: from the page's own, so they follow light and dark.
  const heatColour = () => getComputedStyle(document.documentElement).getPropertyValue("--heat").split(",").map(Number);
  const HEAT_FIRST = 6;

  const graphs = (element, history) => draw[element.dataset.graph](element, history);
  const label = (element, top, text) => {
    put(element.parentNode.querySelector(".peak"), top);
    element.setAttribute("aria-label", text);
    const hover = element.dataset.hover;
    if (hover === undefined) put(element.parentNode.querySelector(".read"), "");
  };
  const draw = {
    spark: (svg, history) => {
      const values = history.map(moment => moment.requests), top = Math.max(1, ...values);
      path(svg, "area").setAttribute("d", area(values, top));
      path(svg, "rate").setAttribute("d", line(values, top));
      path(svg, "failed").setAttribute("d", history.some(moment => moment.failures) ? area(history.map(moment => moment.failures), top) : "");
    },
    rate: (svg, history) => {
      const values = history.map(moment => moment.requests);
      const top = Math.max(1, ...values);
      path(svg, "area").setAttribute("d", area(values, top));
      path(svg, "rate").setAttribute("d", line(values, top));
      path(svg, "failed").setAttribute("d", history.some(moment => moment.failures) ? area(history.map(moment => moment.failures), top) : "");
      label(svg, rate(top), `Requests per second: now ${rate(values.at(-1) ?? 0)}, at most ${rate(top)} within two minutes`);
      read(svg, history, moment => rate(moment.requests) + (moment.failures ? ", " + rate(moment.failures) + " failed" : ""));
    },
    time: (svg, history) => {
      const p99 = history.map(moment => moment.p99_us), p50 = history.map(moment => moment.p50_us);
      const top = Math.max(1, most(p99) ?? 1);
      path(svg, "p99").setAttribute("d", line(p99, top));
      path(svg, "p50").setAttribute("d", line(p50, top));
      label(svg, micros(most(p99)), `Response time: now P50 ${micros(p50.at(-1))}, P99 ${micros(p99.at(-1))}, P99 at most ${micros(most(p99))} within two minutes`);
      read(svg, history, moment => micros(moment.p50_us) + ", " + micros(moment.p99_us));
    },
    heat: (canvas, history) => {
      let low = Infinity, high = -1, most = 1;
      for (const { heat } of history) heat.forEach((n, row) => { if (n) { low = Math.min(low, row); high = Math.max(high, row); most = Math.max(most, n); } });
      if (high < 0) { low = 0; high = 6; }
      low = Math.max(0, low - 1); high = Math.min(20, Math.max(high + 1, low + 6));
      const rows = high - low + 1;
      if (canvas.height !== rows) canvas.height = rows;
      const ink = canvas.getContext("2d"), [red, green, blue] = heatColour();
      const pixels = ink.createImageData(SECONDS, rows);
      history.forEach(({ heat }, index) => {
        const x = SECONDS - history.length + index;
        heat.forEach((n, row) => {
          if (!n || row < low || row > high) return;
          const at = ((high - row) * SECONDS + x) * 4;
          pixels.data.set([red, green, blue, 45 + 210 * Math.log1p(n) / Math.log1p(most)], at);
        });
      });
      ink.putImageData(pixels, 0, 0);
      const bound = row => micros(2 ** (HEAT_FIRST + row));
      label(canvas, "to " + bound(high), `Response times of two minutes, from ${low ? bound(low - 1) : "0"} at the bottom to ${bound(high)} at the top, the more the darker`);
      read(canvas, history, ({ heat }, y) => {
        const row = high - Math.min(rows - 1, Math.floor(y * rows));
        return `${row ? bound(row - 1) : "0"} to ${bound(row)}: ${count(heat[row] ?? 0)}`;
      });
    },
  };
  // The value under the pointer.
  const read = (element, history, text) => {
    element.onpointermove = event => {
      const box = element.getBoundingClientRect();
      const second = Math.floor((event.clientX - box.left) / box.width * SECONDS);
      const moment = history[second - (SECONDS - history.length)];
      element.dataset.hover = "";
      put(element.parentNode.querySelector(".read"), moment ? `${text(moment, (event.clientY - box.top) / box.height)} (${SECONDS - 1 - second} s ago)` : "");
    };
    element.onpointerleave = () => { delete element.dataset.hover; put(element.parentNode.querySelector(".read"), ""); };
  };

  // The list of upstreams: condition, order, which are shown, and which servers are selected.
  const CONDITIONS = ["down", "panic", "degraded", "failing", "waiting", "up", "idle"];
  const isBroken = server => server.status === "down" || server.status === "ejected";
  const isOut = server => server.status === "draining" || server.status === "maintenance";
  const runs = upstream => sum(upstream.servers, server => server.in_flight);
  // The same as `Condition::of` in upstreams.rs.
  const conditionOf = upstream => !upstream.servers_usable ? "down" : upstream.in_panic ? "panic" : upstream.servers.some(isBroken) ? "degraded"
    : upstream.rates.failures.now > 0 ? "failing" : upstream.queue_length.now > 0 ? "waiting" : upstream.rates.requests.now > 0 || runs(upstream) > 0 ? "up" : "idle";
  const rank = condition => Math.min(CONDITIONS.indexOf(condition), CONDITIONS.indexOf("up"));
  const filters = {
    problem: (upstream, condition) => rank(condition) < CONDITIONS.indexOf("up"),
    active: (upstream, condition) => condition !== "idle",
    idle: (upstream, condition) => condition === "idle",
    out: upstream => upstream.servers.some(isOut),
  };
  const search = document.getElementById("search"), filter = document.getElementById("filter");
  const key = (upstream, server) => JSON.stringify([upstream, server]);
  const list = {
    lines: [],
    collect() {
      list.lines = all("details.upstream").map(details => ({
        details, at: details.dataset.at, name: details.dataset.name, index: Number(details.dataset.at.split(".")[1]),
        condition: details.querySelector("[data-c=condition]"), usable: details.querySelector("[data-c=usable]"), running: details.querySelector("[data-c=running]"),
        spark: details.querySelector("[data-graph=spark]"), graphs: all(".graphs [data-graph]", details),
      }));
      const there = new Set(all("[data-pick]").map(box => key(box.dataset.of, box.dataset.pick)));
      for (const one of state.picked) if (!there.has(one)) state.picked.delete(one);
      const tools = document.getElementById("tools");
      tools.replaceWith(list.tools ??= tools);
      tools.hidden = list.tools.hidden = list.lines.length < 2;
      list.pick();
    },
    write(overview) {
      for (const one of list.lines) {
        const upstream = look(overview, one.at);
        if (!upstream) continue;
        one.is = conditionOf(upstream);
        writers.status(one.condition, one.is);
        const whole = upstream.servers_usable === upstream.servers_total;
        const usable = `${count(upstream.servers_usable)} of ${count(upstream.servers_total)}`;
        if (one.said !== usable) {
          one.said = usable;
          one.usable.replaceChildren(usable, make("span", { className: "wide" }, " usable"));
          one.usable.classList.toggle("some", !whole);
          one.usable.title = whole ? "" : "Show the servers that are not usable";
        }
        put(one.running, count(runs(upstream)));
        if (one.details.hidden) continue;
        graphs(one.spark, upstream.history);
        if (one.details.open) for (const element of one.graphs) graphs(element, upstream.history);
      }
      list.sort();
      list.show();
    },
    // Problems first, as the page has it; not below a pointer or the focus.
    sort() {
      const holder = document.getElementById("upstream-list");
      if (!holder || holder.matches(":hover, :focus-within")) return;
      const wanted = [...list.lines].sort((one, other) => rank(one.is) - rank(other.is) || one.index - other.index);
      if (wanted.some((one, place) => holder.children[place] !== one.details)) holder.append(...wanted.map(one => one.details));
    },
    found(upstream, text) {
      const has = part => part.toLowerCase().includes(text);
      return { name: has(upstream.name), servers: upstream.servers.filter(server => has(server.name) || has(server.address) || server.endpoints.some(has)) };
    },
    show() {
      const { overview } = state, text = list.search.value.trim().toLowerCase();
      let shown = 0;
      for (const one of list.lines) {
        const upstream = look(overview, one.at);
        const found = text ? list.found(upstream, text) : null;
        const is = (!found || found.name || found.servers.length > 0) && (!list.filter.value || filters[list.filter.value](upstream, one.is));
        if (one.details.hidden === is) one.details.hidden = !is;
        shown += is;
      }
      const whole = list.lines.length;
      put(document.getElementById("upstreams-shown"), shown < whole ? `${count(shown)} of ${count(whole)}` : count(whole));
      document.getElementById("upstreams-none").hidden = shown > 0;
      const button = list.tools.querySelector("#select-found");
      if (button) button.hidden = !text;
    },
    fold(open) { for (const one of list.lines) if (!one.details.hidden) one.details.open = open; if (state.overview) write(state.overview); },
    // The boxes, and the bar that says how many servers are selected.
    pick() {
      for (const box of all("[data-pick]")) box.checked = state.picked.has(key(box.dataset.of, box.dataset.pick));
      for (const one of list.lines) {
        const box = one.details.querySelector("[data-pick-all]"), boxes = all("[data-pick]", one.details);
        if (!box) continue;
        const checked = boxes.filter(one => one.checked).length;
        box.checked = checked > 0 && checked === boxes.length;
        box.indeterminate = checked > 0 && checked < boxes.length;
      }
      const bar = document.getElementById("selection");
      if (!bar) return;
      bar.hidden = state.picked.size === 0;
      put(document.getElementById("selection-count"), state.picked.size === 1 ? "1 server" : count(state.picked.size) + " servers");
    },
    start() {
      if (!search) return;
      list.search = search;
      list.filter = filter;
      const again = () => { if (state.overview) write(state.overview); };
      list.again = again;
      search.form.addEventListener("submit", event => event.preventDefault());
      search.addEventListener("input", again);
      filter.addEventListener("change", again);
      document.getElementById("unfold").addEventListener("click", () => list.fold(true));
      document.getElementById("fold").addEventListener("click", () => list.fold(false));
      main.addEventListener("toggle", event => { if (event.target.matches?.("details") && state.overview) write(state.overview); }, true);
      document.addEventListener("keydown", event => {
        if (event.key === "/" && !event.target.matches("input, select, textarea") && !event.ctrlKey && !event.metaKey && !list.tools.hidden) { event.preventDefault(); search.focus(); }
        if (event.key === "Escape" && event.target === search) { search.value = ""; again(); }
      });
      main.addEventListener("click", event => {
        const usable = event.target.closest("a.usable");
        if (usable) {
          event.preventDefault();
          const details = usable.closest("details");
          const only = usable.classList.contains("some");
          details.open = only || !details.open;
          details.classList.toggle("only-unusable", only);
          again();
          if (only) details.querySelector("table.servers")?.scrollIntoView({ block: "nearest" });
        }
        if (event.target.closest("button.all")) event.target.closest("details.upstream").classList.remove("only-unusable");
      });
      main.addEventListener("change", event => {
        const boxes = event.target.dataset.pick ? [event.target] : "pickAll" in event.target.dataset ? all("tbody tr", event.target.closest("table"))
          .filter(row => row.offsetParent).flatMap(row => all("[data-pick]", row)) : [];
        for (const box of boxes) state.picked[event.target.checked ? "add" : "delete"](key(box.dataset.of, box.dataset.pick));
        list.pick();
      });
      document.getElementById("select-found")?.addEventListener("click", () => {
        const text = search.value.trim().toLowerCase();
        for (const one of list.lines) {
          const upstream = look(state.overview, one.at);
          if (one.details.hidden) continue;
          const found = list.found(upstream, text);
          for (const server of found.servers.length ? found.servers : upstream.servers) if (server.status !== "leaving") state.picked.add(key(upstream.name, server.name));
        }
        list.pick();
      });
      document.getElementById("selection-clear")?.addEventListener("click", () => { state.picked.clear(); list.pick(); });
    },
  };

  const live = document.getElementById("live"), liveText = document.getElementById("live-text");
  const say = (name, text) => { live.className = name; put(liveText, text); };

  // Loads the markup from Weir once more; folding and focus stay.
  const renew = async () => {
    const response = await ask("/" + location.search, { headers: { accept: "text/html" } });
    if (!response.ok) throw new Error(response.status);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    const name = details => details.dataset.name ?? details.querySelector("summary").textContent;
    const open = new Map(all("details", main).map(details => [name(details), details.open]));
    const focused = document.activeElement?.dataset?.server && [document.activeElement.dataset.upstream, document.activeElement.dataset.server];
    const isSearched = document.activeElement === search;
    main.replaceChildren(...fresh.getElementById("main").childNodes);
    for (const details of all("details", main)) details.open = open.get(name(details)) ?? details.open;
    collect();
    if (isSearched) search.focus();
    if (focused) [...main.querySelectorAll("button[data-server]")].find(one => one.dataset.upstream === focused[0] && one.dataset.server === focused[1])?.focus();
  };

  const poll = async () => {
    const response = await ask("/api/overview" + location.search, { headers: { accept: "application/json" } });
    if (!response.ok) throw new Error(response.status);
    const overview = await response.json();
    const shape = shapeOf(overview);
    if (state.shape !== null && state.shape !== shape) {
      // The token, the dialog and the buttons for profiles come and go with the whole page.
      if (overview.process.allows_changes !== (token !== undefined)) return location.reload();
      await renew();
    }
    state.shape = shape;
    write(overview);
    say("on", "live");
  };

  // Elements with content; text is text, never markup.
  const make = (name, properties, ...content) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...content.flat().filter(one => one != null && one !== "").map(one => one instanceof Node ? one : clean(one)));
    return element;
  };
  const link = (href, text) => make("a", { href }, text);
  const cell = (label, ...content) => {
    const cell = make("td", {}, ...content);
    cell.dataset.label = label;
    return cell;
  };
  const millis = ms => ms == null ? NOTHING : micros(Math.round(ms * 1000));
  const reasonOf = failure => link("/failures/" + encodeURIComponent(failure.reason), failure.reason);
  const asked = one => one.method ? `${one.method} ${one.path ?? ""}` : one.kind;

  // Those with the same reason, place and status, in the place of the newest: many of a kind must not hide the others.
  const grouped = failures => {
    const groups = new Map();
    for (const one of failures) {
      const kind = JSON.stringify([one.failure?.reason, one.listener, one.upstream, one.server, one.status, one.kind]);
      if (groups.has(kind)) groups.get(kind).count++;
      else groups.set(kind, { ...one, count: 1 });
    }
    return [...groups.values()];
  };

  // The last failures; 404 where nothing records them.
  const recent = async () => {
    const section = document.getElementById("failures");
    const limit = Math.max(FAILURES_LOOKED_AT, state.failuresMax);
    const response = await ask("/api/failures?limit=" + limit);
    if (!response.ok) throw new Error(response.status);
    const { failures } = await response.json();
    const groups = grouped(failures), shown = groups.slice(0, state.failuresMax);
    const newest = failures[0]?.number + "," + failures.length + "," + shown.length;
    if (section.dataset.newest === newest) return;
    section.dataset.newest = newest;
    section.hidden = failures.length === 0;
    document.getElementById("failures-all").hidden = failures.length < limit && shown.length === groups.length || state.failuresMax === FAILURES_MAX;
    section.querySelector("tbody").replaceChildren(...shown.map(one => make("tr", {},
      make("th", { scope: "row" }, new Date(one.time).toLocaleTimeString()),
      cell("Request", link("/why/" + encodeURIComponent(one.number), asked(one)), make("span", { className: "small" }, one.host ?? one.client)),
      cell("Reason", one.failure ? reasonOf(one.failure) : NOTHING),
      cell("Where", [one.upstream, one.server].filter(Boolean).join(", ") || one.listener || NOTHING),
      cell("Status", String(one.status ?? NOTHING)),
      cell("Took", millis(one.total_ms)),
      cell("Count", failures.length < limit ? count(one.count) : "of the last " + count(limit) + ": " + count(one.count)),
    )));
  };

  // One round after the other, none while the page is hidden.
  const wait = ms => new Promise(resolve => setTimeout(resolve, ms));
  const visible = () => document.hidden ? new Promise(resolve => document.addEventListener("visibilitychange", resolve, { once: true })) : null;
  const run = async () => {
    list.start();
    collect();
    for (let round = 0; ; round++) {
      await visible();
      const begun = performance.now();
      try {
        await poll();
        state.failures = 0;
        if (round % 5 === 0) await recent();
      } catch (error) {
        state.failures++;
        say("off", error instanceof TypeError ? "Weir does not answer" : "refused: " + error.message);
      }
      await wait(Math.max(200, 1000 * Math.min(10, 1 + state.failures) - (performance.now() - begun)));
    }
  };

  // Changes of servers: asked for in a dialog, sent with the token of this page.
  const dialog = document.getElementById("change");
  if (dialog && token) {
    const form = dialog.querySelector("form"), said = document.getElementById("change-said");
    const deadline = document.getElementById("change-deadline");
    const server = name => state.overview?.upstreams.find(one => one.name === name.upstream)?.servers.find(one => one.name === name.server);
    // The guard answers with text, the rest with a list of errors.
    const complaint = async response => {
      const text = (await response.text()).trim();
      try { return JSON.parse(text).errors.join("\n"); } catch { return text || "refused: " + response.status; }
    };
    const warning = document.getElementById("change-warning");
    let meant = null;
    // Upstreams that would be left without a server.
    const warn = () => {
      const mode = form.elements.mode.value, names = new Set(meant.map(one => one.upstream));
      const bare = mode === "serving" ? [] : [...names].filter(name => {
        const upstream = state.overview.upstreams.find(one => one.name === name);
        return upstream?.servers_usable > 0 && !upstream.servers.some(one => one.status === "up" && !meant.some(other => other.upstream === name && other.server === one.name));
      });
      warning.hidden = !bare.length;
      put(warning, bare.length ? `No usable server would be left to ${bare.join(", ")}.` : "");
    };
    const open = servers => {
      meant = servers.flatMap(name => {
        const now = server(name);
        return now ? [{ ...name, mode: now.mode, weight: now.weight, now }] : [];
      });
      if (!meant.length) return;
      const [{ now }] = meant, modes = new Set(meant.map(one => one.mode)), only = meant.length === 1;
      put(document.getElementById("change-server"), only ? `${meant[0].server} of ${meant[0].upstream}` : `${meant.length} servers`);
      put(said, "");
      form.reset();
      const choice = modes.size === 1 ? form.querySelector(`input[value="${now.mode}"]`) : null;
      if (choice) choice.checked = true;
      deadline.hidden = form.elements.mode.value !== "draining";
      form.elements.deadline.placeholder = only && now.mode === "draining" && now.deadline_in_ms != null ? lasting(now.deadline_in_ms) + " more" : "never";
      document.getElementById("change-weight").hidden = !only;
      form.elements.weight.value = now.weight;
      warn();
      dialog.showModal();
      (choice ?? form.querySelector("input[name=mode]")).focus();
    };
    main.addEventListener("click", event => {
      const button = event.target.closest("button[data-server]");
      if (button) open([{ upstream: button.dataset.upstream, server: button.dataset.server }]);
    });
    document.getElementById("selection-change").addEventListener("click", () => {
      open([...state.picked].map(one => { const [upstream, server] = JSON.parse(one); return { upstream, server }; }));
    });
    form.addEventListener("change", () => { deadline.hidden = form.elements.mode.value !== "draining"; warn(); });
    document.getElementById("change-cancel").addEventListener("click", () => dialog.close());
    form.addEventListener("submit", async event => {
      event.preventDefault();
      const mode = form.elements.mode.value, weight = form.elements.weight.valueAsNumber;
      const stay = mode === "draining" ? form.elements.deadline.value.trim() : "";
      const headers = { "weir-page-token": token, "content-type": "application/json" };
      const only = meant.length === 1, failed = [];
      let sent = 0;
      try {
        // One after the other, in the order of the page: each is a change of its own, and those after one that is refused are tried.
        for (const one of meant) {
          // Unchanged fields keep their value of then.
          const wish = {};
          if (mode !== one.mode || stay) wish.mode = mode;
          if (stay) wish.deadline = stay;
          if (only && weight !== one.weight) wish.weight = weight;
          if (!Object.keys(wish).length) continue;
          const path = "/api/servers/" + [one.upstream, one.server].map(encodeURIComponent).join("/");
          const response = await ask(path, { method: "POST", headers, body: JSON.stringify(wish) });
          sent++;
          if (response.ok) state.picked.delete(key(one.upstream, one.server));
          else failed.push((only ? "" : `${one.server} of ${one.upstream}: `) + await complaint(response));
        }
        if (failed.length) { put(said, failed.join("\n")); list.pick(); return; }
        if (!only) state.picked.clear();
        list.pick();
        dialog.close();
        if (sent) await poll();
      } catch { put(said, "Weir does not answer."); }
    });
  }
  // The page of one exchange.
  // Text between backticks is code.
  const marked = text => text.split("`").map((part, index) => index % 2 ? make("code", {}, part) : part);
  const pairs = list => make("dl", { className: "pairs" }, list.filter(([, value]) => value != null && value !== "")
    .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const table = (heads, rows) => make("div", { className: "scroll" }, make("table", { className: "list" },
    make("thead", {}, make("tr", {}, heads.map(head => make("th", { scope: "col" }, head)))), make("tbody", {}, rows)));
  const section = (heading, ...content) => make("section", {}, make("h2", {}, heading), ...content);

  const outcome = one => one.failure ? [reasonOf(one.failure), make("span", { className: "small" }, one.failure.happened)]
    : one.no_server ? "no server took it" : one.refused_status ? "answered " + one.refused_status : "answered";
  const attempts = list => table(["Server", "Began", "Lasted", "Connection", "Outcome", "Candidates"], list.map(one => make("tr", {},
    make("th", { scope: "row" }, one.server ?? "none"),
    cell("Began", "after " + millis(one.began_ms)), cell("Lasted", millis(one.lasted_ms)),
    cell("Connection", one.connection ? one.connection.reused ? `reused, ${lasting(one.connection.age_ms)} old` : "new" : NOTHING),
    cell("Outcome", outcome(one)),
    cell("Candidates", one.candidates.map(other => make("span", { className: "small" }, `${other.server}: ${other.in_flight} running, ${other.chosen ? "chosen" : other.eligible ? "could have had it" : other.eligibility}`))),
  )));
  const story = one => [
    section(asked(one) + (one.host ? " for " + one.host : ""), pairs([
      ["Request id", one.id], ["When", new Date(one.time).toLocaleString()], ["Took", millis(one.total_ms)], ["Status", one.status && `${one.status}, by ${one.answered_by}`],
      ["Client", one.client], ["Listener", one.listener], ["Route", one.route && `${one.route}: ${one.rule}`], ["Upstream", one.upstream && `${one.upstream}, ${one.balance}`],
      ["Server", one.server], ["Waited", one.queue.waited_ms ? `${millis(one.queue.waited_ms)}, ${one.queue.ahead} before it` : null],
      ["Ended", one.ended.by ? `${one.ended.how} by ${one.ended.by}` : one.ended.how],
    ])),
    one.failure ? section("Why it failed", make("p", {}, reasonOf(one.failure), `: ${one.failure.happened} (${one.failure.party}, phase ${one.failure.phase})`),
      make("p", {}, marked(one.failure.change))) : null,
    one.attempt_list.length ? section("Attempts", attempts(one.attempt_list)) : null,
    section("Where the time went", table(["Phase", "Time"], one.phases.map(({ phase, ms }) => make("tr", {}, make("th", { scope: "row" }, phase),
      cell("Time", make("meter", { max: one.total_ms || 1, value: ms, ariaHidden: "true" }), millis(ms)))))),
  ];
  const tell = async () => {
    const said = document.getElementById("why-said");
    try {
      const response = await ask("/api/exchanges/" + location.pathname.slice("/why/".length));
      const told = response.ok || response.status === 404 ? await response.json() : null;
      put(said, !told ? "refused: " + response.status : told.exchanges ? "" : "Weir does not have this exchange any more: only the latest ones are kept.");
      document.getElementById("why").replaceChildren(...(told?.exchanges ?? []).flatMap(story).filter(Boolean));
    } catch { put(said, "Weir does not answer."); }
  };

  if (document.getElementById("why")) tell();
  if (main && live) run();
})();
