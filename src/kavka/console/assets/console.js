// What pages cannot do without a script: charts, the viewer's time zone, refreshing, the live tail, keys.
// Everything that a page shows is in its address, so that a reload shows it again.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Sentences come with the page, in its language; values stand in braces.
  const said = (name, values = {}) => $("#texts").dataset[name].replace(/\{(\w+)\}/g, (_, part) => values[part]);
  const count = (number) => number.toLocaleString("en");

  // Times in the viewer's zone; the title keeps UTC.
  const pad = (number, width = 2) => String(number).padStart(width, "0");
  function localTimes(root) {
    for (const element of all("time[datetime]", root)) {
      const at = new Date(element.getAttribute("datetime"));
      if (Number.isNaN(at.getTime()) || element.dataset.local) continue;
      element.dataset.local = "1";
      element.textContent =
        `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ` +
        `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
    }
  }

  // Charts
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) =>
    value >= 1e6 ? `${+(value / 1e6).toFixed(2)} M` : value >= 1e3 ? `${+(value / 1e3).toFixed(1)} k` : `${+value.toFixed(1)}`;
  // The units of the history's charts; a chart without one has records a second.
  const tenths = (value) => ({ amount: +value.toFixed(1) });
  const duration = (seconds) =>
    seconds >= 86400 ? said("days", tenths(seconds / 86400)) : seconds >= 3600 ? said("hours", tenths(seconds / 3600)) : seconds >= 60 ? said("minutes", tenths(seconds / 60)) : said("seconds", tenths(seconds));
  const bytes = (value) => {
    let unit = 0;
    while (value >= 999.5 && unit < 5) { value /= 1000; unit += 1; }
    return `${+value.toFixed(unit ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB", "PB"][unit]}`;
  };
  // Marks of a duration are whole minutes, hours and days, not tens of seconds.
  const STEPS = [0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000];
  const UNITS = { seconds: duration, bytes, share: (value) => `${+(value * 100).toFixed(1)}%` };
  const locale = document.documentElement.lang === "zh" ? "zh-CN" : "en-GB";
  const day = (at) => new Date(at * 1000).toLocaleDateString(locale, { day: "2-digit", month: "2-digit" });
  const clock = (at, seconds) => new Date(at * 1000).toLocaleTimeString("en-GB", seconds ? {} : { hour: "2-digit", minute: "2-digit" });
  function draw(element) {
    const times = JSON.parse(element.dataset.times);
    const values = JSON.parse(element.dataset.values);
    if (times.length < 2) return;
    element.textContent = "";
    const amount = UNITS[element.dataset.unit];
    const least = element.dataset.unit === "share" ? 0.01 : 1;
    const isLong = times[times.length - 1] - times[0] > 172800;
    const tick = (at, step) => (step >= 86400 ? day(at) : isLong ? `${day(at)} ${clock(at)}` : clock(at, step < 60));
    const axis = { stroke: colour("--muted"), font: "11px system-ui", grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const chart = new uPlot(
      {
        width: Math.max(element.clientWidth - 24, 120),
        height: 176,
        padding: [8, 24, 0, 0],
        cursor: { y: false, drag: { x: false, y: false } },
        legend: { show: true },
        scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, least)] } },
        axes: [{ ...axis, space: 90, size: 28, values: (_, marks, __, ___, step) => marks.map((at) => tick(at, step)) }, { ...axis, size: 60, ...(amount === duration ? { incrs: STEPS } : {}), values: (_, marks) => marks.map(amount || short) }],
        series: [
          { label: said("time"), value: (_, at) => (at == null ? "–" : isLong ? `${day(at)} ${clock(at)}` : clock(at, true)) },
          {
            label: element.dataset.label || "records/s",
            stroke: colour("--accent"),
            width: 1.75,
            fill: colour("--accent") + "1f",
            spanGaps: false,
            points: { show: false },
            value: (_, value) => (value == null ? "–" : amount ? amount(value) : Math.round(value).toLocaleString("en")),
          },
        ],
      },
      [times, values],
      element,
    );
    element.chart = chart;
  }
  function charts(root) {
    for (const element of all(".chart[data-times]", root)) if (!element.chart) draw(element);
  }
  let resizing;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => {
      scrolled(document);
      for (const element of all(".chart")) {
        if (element.chart) element.chart.setSize({ width: Math.max(element.clientWidth - 24, 120), height: 176 });
      }
    }, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const element of all(".chart")) {
      if (element.chart) element.chart.destroy();
      element.chart = null;
    }
    charts(document);
  });

  // Refreshing: the part of the page that is marked is asked for again while the page is seen.
  let refreshed = Date.now();
  const stale = () => $("#stale");
  function failed() {
    stale().textContent = said("stale", { time: new Date(refreshed).toLocaleTimeString() });
    stale().hidden = false;
  }
  setInterval(() => {
    const live = $("#live[data-refresh]");
    if (!live || document.hidden || live.contains(document.activeElement)) return; // what has the focus stays
    if (Date.now() - refreshed < Number(live.dataset.refresh) * 1000) return;
    refreshed = Math.max(refreshed, Date.now() - 1000 * Number(live.dataset.refresh) + 2000); // not again within two seconds
    const address = new URL(location.href);
    address.searchParams.delete("notice");
    htmx.ajax("GET", address.pathname + address.search, { target: "#live", select: "#live", swap: "outerHTML", headers: { "X-Refresh": "1" } });
  }, 1000);
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status === 200) {
      refreshed = Date.now();
      stale().hidden = true;
      for (const element of all(".chart", event.detail.target)) if (element.chart) element.chart.destroy();
    }
  });
  document.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 404) location.reload(); // it was deleted: the page says so
  });
  for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) document.addEventListener(name, failed);
  document.addEventListener("htmx:afterSettle", () => ready(document));

  // The overview comes as server-sent events, while it is seen: a browser has few connections to one address.
  let events = null;
  function follow() {
    if (!$("#live[data-events]") || document.hidden || events) return;
    events = new EventSource(location.pathname + location.search);
    events.addEventListener("page", (event) => {
      refreshed = Date.now();
      stale().hidden = true;
      const old = $("#live");
      const fresh = new DOMParser().parseFromString(JSON.parse(event.data).html, "text/html").getElementById("live");
      if (!old || !fresh || old.contains(document.activeElement)) return;
      for (const element of all(".chart", old)) if (element.chart) element.chart.destroy();
      old.replaceWith(document.importNode(fresh, true));
      ready(document);
    });
    events.addEventListener("failure", failed);
    events.onerror = () => {
      failed();
      if (events && events.readyState === EventSource.CLOSED) {
        unfollow();
        setTimeout(follow, 5000);
      }
    };
  }
  function unfollow() {
    if (events) events.close();
    events = null;
  }
  document.addEventListener("visibilitychange", () => (document.hidden ? unfollow() : follow()));
  addEventListener("pagehide", unfollow);
  addEventListener("pageshow", follow);

  // A statement that runs is stopped: the console ends its process when the browser has left.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-abort]");
    if (button) htmx.trigger(button.form, "htmx:abort");
  });

  // Fields that belong to one choice of a list
  function choices(root) {
    for (const select of all("select[data-start]", root)) {
      const show = () => {
        for (const label of all("[data-for]", select.form)) label.hidden = !label.dataset.for.split(" ").includes(select.value);
      };
      if (!select.dataset.ready) select.addEventListener("change", show);
      select.dataset.ready = "1";
      show();
    }
  }

  // A typed confirmation enables the button; the console checks it again.
  function confirmations(root) {
    for (const input of all("input[data-confirm]", root)) {
      const button = $("[data-confirmed]", input.form);
      const check = () => { button.disabled = input.value !== input.dataset.confirm; };
      if (!input.dataset.ready) input.addEventListener("input", check);
      input.dataset.ready = "1";
      check();
    }
  }

  // A table that is wider than its place is scrolled with the keyboard, too, and has the name of its heading.
  function scrolled(root) {
    for (const region of all(".scroll", root)) {
      const over = region.scrollWidth > region.clientWidth;
      if (over === region.hasAttribute("tabindex")) continue;
      const section = region.closest("section");
      const heading = (section && $("h2", section)) || $("h1");
      const values = { tabindex: "0", role: "group", "aria-label": heading.textContent };
      for (const [name, value] of Object.entries(values)) over ? region.setAttribute(name, value) : region.removeAttribute(name);
    }
  }

  // The live tail
  const MOST_ROWS = 300;
  let source = null;
  function tail() {
    const button = $("[data-tail]");
    if (!button) return;
    const status = $("#reach");
    const rows = $("#records");
    let total = 0;
    const inAddress = (on) => {
      const address = new URL(location.href);
      if (on) address.searchParams.set("live", on); else address.searchParams.delete("live");
      history.replaceState(null, "", address);
    };
    const stop = (label) => {
      if (source) source.close();
      source = null;
      button.setAttribute("aria-pressed", "false");
      button.textContent = label;
    };
    const start = () => {
      button.setAttribute("aria-pressed", "true");
      button.textContent = said("pause");
      status.textContent = said("waiting");
      source = new EventSource(button.dataset.tail);
      source.addEventListener("records", (event) => {
        const batch = JSON.parse(event.data);
        total += batch.seen;
        const rate = batch.seen * 2;
        const left = batch.kept - batch.shown;
        const values = { total: count(total), rate: count(rate), left: count(left) };
        status.textContent = said(left > 0 ? "overflow" : "following", values);
        if (!batch.shown) return;
        for (const none of all("tr.none", rows)) none.remove();
        rows.insertAdjacentHTML("afterbegin", batch.rows);
        all("tr.record", rows).slice(0, batch.shown).forEach((row) => row.classList.add("new"));
        while (rows.rows.length > MOST_ROWS) rows.lastElementChild.remove();
        localTimes(rows);
      });
      source.addEventListener("failure", (event) => {
        const failure = JSON.parse(event.data);
        stop(said("follow"));
        status.textContent = `${failure.title}. ${failure.detail} ${failure.advice}`;
      });
      source.onerror = () => {
        if (source && source.readyState === EventSource.CLOSED) {
          stop(said("follow"));
          status.textContent = said("ended");
        }
      };
    };
    button.addEventListener("click", () => {
      if (source) { stop(said("again")); inAddress("paused"); status.textContent = said("paused", { total: count(total) }); }
      else { start(); inAddress("on"); }
    });
    addEventListener("pagehide", () => source && source.close());
    if (new URL(location.href).searchParams.get("live") === "on") start();
  }

  // Keys: / searches, g and a letter goes to a page.
  let before = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    if (event.key === "/") {
      const field = $("[data-search]");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
    } else if (before === "g") {
      const link = $(`.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) link.click();
    }
    before = event.key;
  });

  function ready(root) {
    localTimes(root);
    charts(root);
    choices(root);
    confirmations(root);
    scrolled(root);
  }
  for (const link of all("[data-again]")) link.href = location.href;
  // On a narrow screen the menu is scrolled to the page that is shown.
  const menu = $(".side nav");
  const current = menu && $("[aria-current]", menu);
  if (current) menu.scrollLeft = current.offsetLeft - (menu.clientWidth - current.offsetWidth) / 2;
  ready(document);
  follow();
  tail();
})();
