// Keeps the status page current: asks for /api/overview once a second, writes the figures into their places, draws the graphs, and sends what
// the operator wants of a server. The markup is made by Weir; where parts have come or gone, it is taken from there anew.
"use strict";
(() => {
  const NOTHING = "–", FAILURES_MAX = 1000;
  const token = document.querySelector("meta[name=weir-page-token]")?.content;
  const main = document.getElementById("main");
  const state = { shape: null, places: [], overview: null, failures: 0, failuresMax: 20 };

  // Without the name and password that may stand in the address of the page: `fetch` refuses those.
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
    stopping: is => is ? "stopping" : "serving",
    since: ms => lasting(state.overview.process.at_ms - ms),
    since_seconds: s => lasting(state.overview.process.at_ms - s * 1000),
    named: list => list?.length ? list.map(({ name, count: n }) => name + " " + count(n)).join(", ") : "none",
  };

  const look = (value, path) => path.split(".").reduce((value, key) => value?.[key], value);
  const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };

  // What is not one text.
  const writers = {
    status: (element, status) => { put(element, status); if (element.dataset.is !== status) element.dataset.is = status; },
    panic: (element, is) => { element.hidden = !is; },
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
    overview.config.generation, overview.process.allows_changes, overview.workers.length,
    overview.listeners.map(listener => [listener.name, listener.routes.length]),
    overview.upstreams.map(upstream => [upstream.name, upstream.queued > 0, upstream.retries_refused.length > 0,
      upstream.servers.map(server => [server.name, server.status === "leaving", server.probes == null])]),
  ]);

  const collect = () => {
    state.places = [...document.querySelectorAll("[data-v]")].map(element => ({
      element, path: element.dataset.v, format: element.dataset.f,
      at: element.closest("[data-at]")?.dataset.at ?? "", fold: element.closest("details"),
    }));
    for (const button of document.querySelectorAll("button[data-server]")) button.hidden = false;
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
    for (const section of document.querySelectorAll(".upstream")) graphs(section, look(overview, section.dataset.at));
  };

  const sum = (list, of) => list.reduce((sum, one) => sum + of(one), 0);
  const most = list => { const some = list.filter(n => n != null); return some.length ? Math.max(...some) : null; };
  const tiles = ({ process, listeners, upstreams }) => {
    const shown = {
      requests: rate(sum(listeners, one => one.rates.requests.now)),
      "requests-below": "peak " + rate(sum(listeners, one => one.rates.requests.peak)),
      failures: rate(sum(listeners, one => one.rates.failures.now)),
      "failures-below": "peak " + rate(sum(listeners, one => one.rates.failures.peak)),
      p99: micros(most(upstreams.map(one => one.response_time.p99_us))),
      "p99-below": "P50 " + micros(most(upstreams.map(one => one.response_time.p50_us))),
      sessions: count(process.sessions_open.now),
      "sessions-below": "peak " + count(process.sessions_open.peak) + " of " + count(process.sessions_max),
      waiting: count(sum(upstreams, one => one.queue_length.now)),
      "waiting-below": "peak " + count(sum(upstreams, one => one.queue_length.peak)),
      servers: count(sum(upstreams, one => one.servers_usable)),
      "servers-below": "of " + count(sum(upstreams, one => one.servers.length)),
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

  const graphs = (section, upstream) => {
    const history = upstream?.history;
    if (!history) return;
    for (const element of section.querySelectorAll("[data-graph]")) draw[element.dataset.graph](element, history);
  };
  const label = (element, top, text) => {
    put(element.parentNode.querySelector(".peak"), top);
    element.setAttribute("aria-label", text);
    const hover = element.dataset.hover;
    if (hover === undefined) put(element.parentNode.querySelector(".read"), "");
  };
  const draw = {
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
  // What the pointer is on.
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

  const live = document.getElementById("live"), liveText = document.getElementById("live-text");
  const say = (name, text) => { live.className = name; put(liveText, text); };

  // Takes the markup from Weir once more; what is folded and where the focus is stays.
  const renew = async () => {
    const response = await ask("/", { headers: { accept: "text/html" } });
    if (!response.ok) throw new Error(response.status);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    const open = [...main.querySelectorAll("details")].map(details => details.open);
    const focused = document.activeElement?.dataset?.server && [document.activeElement.dataset.upstream, document.activeElement.dataset.server];
    main.replaceChildren(...fresh.getElementById("main").childNodes);
    const folds = [...main.querySelectorAll("details")];
    if (folds.length === open.length) folds.forEach((details, index) => { details.open = open[index]; });
    collect();
    if (focused) [...main.querySelectorAll("button[data-server]")].find(one => one.dataset.upstream === focused[0] && one.dataset.server === focused[1])?.focus();
  };

  const poll = async () => {
    const response = await ask("/api/overview", { headers: { accept: "application/json" } });
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
    element.append(...content.flat().filter(one => one != null && one !== ""));
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

  // The last failures; 404 where nothing records them.
  const recent = async () => {
    const section = document.getElementById("failures");
    const response = await ask("/api/failures?limit=" + state.failuresMax);
    if (!response.ok) throw new Error(response.status);
    const { failures } = await response.json();
    const newest = failures[0]?.number + "," + failures.length;
    if (section.dataset.newest === newest) return;
    section.dataset.newest = newest;
    section.hidden = failures.length === 0;
    document.getElementById("failures-all").hidden = failures.length < state.failuresMax || state.failuresMax === FAILURES_MAX;
    section.querySelector("tbody").replaceChildren(...failures.map(one => make("tr", {},
      make("th", { scope: "row" }, new Date(one.time).toLocaleTimeString()),
      cell("Request", link("/why/" + encodeURIComponent(one.number), asked(one)), make("span", { className: "small" }, one.host ?? one.client)),
      cell("Reason", one.failure ? reasonOf(one.failure) : NOTHING),
      cell("Where", [one.upstream, one.server].filter(Boolean).join(", ") || one.listener || NOTHING),
      cell("Status", String(one.status ?? NOTHING)),
      cell("Took", millis(one.total_ms)),
    )));
  };

  // One round after the other, none while nobody looks.
  const wait = ms => new Promise(resolve => setTimeout(resolve, ms));
  const visible = () => document.hidden ? new Promise(resolve => document.addEventListener("visibilitychange", resolve, { once: true })) : null;
  const run = async () => {
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
    let meant = null;
    main.addEventListener("click", event => {
      const button = event.target.closest("button[data-server]");
      if (!button) return;
      const now = server(button.dataset);
      if (!now) return;
      meant = { upstream: button.dataset.upstream, server: button.dataset.server, mode: now.mode, weight: now.weight };
      put(document.getElementById("change-server"), `${meant.server} of ${meant.upstream}`);
      put(said, "");
      form.reset();
      const choice = form.querySelector(`input[value="${now.mode}"]`);
      choice.checked = true;
      deadline.hidden = now.mode !== "draining";
      form.elements.deadline.placeholder = now.mode === "draining" && now.deadline_in_ms != null ? lasting(now.deadline_in_ms) + " more" : "for ever";
      form.elements.weight.value = now.weight;
      dialog.showModal();
      choice.focus();
    });
    form.addEventListener("change", () => { deadline.hidden = form.elements.mode.value !== "draining"; });
    document.getElementById("change-cancel").addEventListener("click", () => dialog.close());
    form.addEventListener("submit", async event => {
      event.preventDefault();
      // What nobody touched stays as it is by then.
      const wish = {}, mode = form.elements.mode.value, weight = form.elements.weight.valueAsNumber;
      const stay = mode === "draining" ? form.elements.deadline.value.trim() : "";
      if (mode !== meant.mode || stay) wish.mode = mode;
      if (stay) wish.deadline = stay;
      if (weight !== meant.weight) wish.weight = weight;
      if (!Object.keys(wish).length) { dialog.close(); return; }
      const path = "/api/servers/" + [meant.upstream, meant.server].map(encodeURIComponent).join("/");
      const headers = { "weir-page-token": token, "content-type": "application/json" };
      try {
        const response = await ask(path, { method: "POST", headers, body: JSON.stringify(wish) });
        if (!response.ok) { put(said, await complaint(response)); return; }
        dialog.close();
        await poll();
      } catch { put(said, "Weir does not answer."); }
    });
  }
  // The page of one exchange.
  // What stands between backticks is code.
  const marked = text => text.split("`").map((part, index) => index % 2 ? make("code", {}, part) : part);
  const pairs = list => make("dl", { className: "pairs" }, list.filter(([, value]) => value != null && value !== "")
    .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const table = (heads, rows) => make("div", { className: "scroll" }, make("table", { className: "list" },
    make("thead", {}, make("tr", {}, heads.map(head => make("th", { scope: "col" }, head)))), make("tbody", {}, rows)));
  const section = (heading, ...content) => make("section", {}, make("h2", {}, heading), ...content);

  const outcome = one => one.failure ? [reasonOf(one.failure), make("span", { className: "small" }, one.failure.happened)]
    : one.refused_status ? "answered " + one.refused_status : "answered";
  const attempts = tries => table(["Server", "Began", "Lasted", "Connection", "Outcome", "Candidates"], tries.map(one => make("tr", {},
    make("th", { scope: "row" }, one.server ?? "nobody"),
    cell("Began", "after " + millis(one.began_ms)), cell("Lasted", millis(one.lasted_ms)),
    cell("Connection", one.connection ? one.connection.reused ? `reused, ${lasting(one.connection.age_ms)} old` : "new" : NOTHING),
    cell("Outcome", outcome(one)),
    cell("Candidates", one.candidates.map(other => make("span", { className: "small" }, `${other.server}: ${other.in_flight} running, ${other.chosen ? "chosen" : other.standing}`))),
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
    one.tries.length ? section("Attempts", attempts(one.tries)) : null,
    section("Where the time went", table(["Phase", "Time"], one.phases.map(({ phase, ms }) => make("tr", {}, make("th", { scope: "row" }, phase),
      cell("Time", make("meter", { max: one.total_ms || 1, value: ms, ariaHidden: "true" }), millis(ms)))))),
  ];
  const tell = async () => {
    const said = document.getElementById("why-said");
    try {
      const response = await ask("/api/exchanges/" + location.pathname.slice("/why/".length));
      const told = response.ok || response.status === 404 ? await response.json() : null;
      put(said, !told ? "refused: " + response.status : told.exchanges ? "" : "Weir does not know this exchange any more: only the last ones are kept.");
      document.getElementById("why").replaceChildren(...(told?.exchanges ?? []).flatMap(story).filter(Boolean));
    } catch { put(said, "Weir does not answer."); }
  };

  if (document.getElementById("why")) tell();
  if (main && live) run();
})();
