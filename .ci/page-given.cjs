// What .ci/page runs with documents that are given: the page's own functions get them, so that nobody waits for a day.
"use strict";

/** Runs in the page. Everything that it checks, with whether it holds. */
async function given() {
  const found = [];
  const check = (what, holds, shown = "") => found.push([what, Boolean(holds), String(shown)]);
  const text = (id) => document.getElementById(id).textContent;
  const real = { fetch: window.fetch, render: window.render, renderHead: window.renderHead, EventSource: window.EventSource, setInterval: window.setInterval, error: console.error };
  const answer = (body, code) => new Response(JSON.stringify(body), { status: code || 200 });
  stop();
  if (loading) await loading;
  const before = structuredClone(status);

  // A day of seconds. A limit is added in it, and the gateway counts the minutes of that limit from there.
  const DAY = 86_400;
  const ADDED = 50_017;
  const value = (tick) => (tick * 31) % 7;
  const span = (from, to, each) => Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => each(from + at));
  const minutes = (tick, begin) => {
    const complete = Math.floor((tick - begin) / 60);
    return span(Math.max(1, complete - 239), complete, (minute) => span(1, 60, (second) => value(begin + (minute - 1) * 60 + second)).reduce((a, b) => a + b));
  };
  const seconds = (tick, begin) => span(Math.max(begin + 1, tick - 299), tick, value);
  const series = (tick, begin, names) => {
    const both = { seconds: {}, minutes: {} };
    for (const name of names) [both.seconds[name], both.minutes[name]] = [seconds(tick, begin), minutes(tick, begin)];
    return both;
  };
  const limitNames = ["admitted", "refused", "would_refuse"];
  const made = (tick, isWhole) => {
    const limit = (name, begin) => ({ name, second: Object.fromEntries(limitNames.map((of) => [of, value(tick)])), series: isWhole && tick > begin ? series(tick, begin, limitNames) : undefined });
    const limits = [limit("first", 0), ...(tick >= ADDED ? [limit("added", ADDED)] : [])];
    const second = { all: value(tick), refused: 0, failed: 0 };
    return { version: 1, tick, gateway: { uptime_seconds: tick }, limits, requests: { second, series: isWhole ? series(tick, 0, ["all"]) : undefined } };
  };
  window.render = window.renderHead = () => {};
  let now = 1;
  let reads = 0;
  window.fetch = async () => {
    reads += 1;
    return answer(made(now, true));
  };
  await load();
  for (now = 2; now <= DAY; now += 1) {
    take(made(now, false));
    if (loading) await loading;
    if (now === ADDED + 1) check("a limit that was added has a course at once", status.limits[1].series.seconds.admitted.length > 0);
  }
  now = DAY;
  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  const kept = status.requests.series;
  check("after a day the 5 minutes are right", same(kept.seconds.all, seconds(DAY, 0)), `${kept.seconds.all.length} seconds`);
  check("and so are the 4 hours", same(kept.minutes.all, minutes(DAY, 0)), `${kept.minutes.all.length} minutes`);
  const added = status.limits[1].series;
  check("and those of a limit that was added", same(added.minutes.admitted, minutes(lastWhole, ADDED)) && DAY - lastWhole < 60, `${added.minutes.admitted.length} minutes`);
  check("the whole document was read once a minute", reads === DAY / 60 + 1, `${reads} times`);

  // A whole document that is slow: the stream goes on meanwhile.
  let arrives;
  window.fetch = () => new Promise((done) => { arrives = done; });
  lastWhole = 0;
  for (now = DAY + 1; now <= DAY + 5; now += 1) take(made(now, false));
  const slow = loading;
  arrives(answer(made(DAY + 2, true)));
  await slow;
  check("a slow whole document loses no second", status.tick === DAY + 5 && same(status.requests.series.seconds.all, seconds(DAY + 5, 0)), status.tick - DAY);
  window.fetch = async () => { throw new TypeError("no network"); };
  let escaped = false;
  const note = () => { escaped = true; };
  window.addEventListener("unhandledrejection", note);
  take(made(DAY + 90, false));
  await loading;
  await new Promise((done) => setTimeout(done, 0));
  window.removeEventListener("unhandledrejection", note);
  check("a failure to read it is no error of the page", !escaped && loading === null);

  Object.assign(window, { render: real.render, renderHead: real.renderHead });
  const show = (change) => {
    const next = structuredClone(before);
    change(next);
    accept(next);
    return next;
  };

  // More clients than are listed at first, and names that look alike.
  const names = Array.from({ length: 100 }, (_, at) => ({ name: `user_id:${at}`, is_cut: false, at_least: 200 - at, at_most: 200 - at }));
  const odd = ["\u061c", "\u200b", "\u200f", "\u2060", "\ufeff", "\u2028", "\u2029", "\u00ad", "\u00a0", "\u3000", "\u3164", "\u{e0041}", "\u202e", "\u0007"];
  check("no character that cannot be seen is left", odd.every((one) => clean(`a${one}b`) === "a\ufffdb"), odd.filter((one) => clean(`a${one}b`) !== "a\ufffdb").map(escape));
  check("those that can be are", clean("äжあ漢 x🙂") === "äжあ漢 x🙂");
  show(() => {});
  pick("by", "refused");
  pick("window", "minute");
  show((next) => { next.clients.minute.refused = { total: 20_000, others_at_most: 0, top: names }; });
  const rows = () => document.querySelectorAll("#clients tbody tr").length;
  const few = rows();
  document.querySelector("#clients-more button").focus();
  document.activeElement.click();
  check("all 100 clients are listed on demand", few === 12 && rows() === 100, `${few}, then ${rows()}`);
  check("the button keeps the focus", document.activeElement.textContent === "Show fewer");
  document.activeElement.click();
  check("and fewer again", rows() === 12, text("clients-more"));

  // A limit with keys near it that are not listed.
  const name = before.limits[0].name;
  showLimit(name);
  for (const [keys, near, words] of [[0, [], "No client has used"], [7, [], "7 are near it, and none of them is listed."], [3, [1], "2 more are near it, and not listed."]]) {
    show((next) => {
      next.limits[0].near_keys = keys;
      next.clients.near = near.map((left) => ({ name: "user_id:a", is_cut: false, limit: name, left, of: 20 }));
    });
    check(`a limit with ${keys} keys near it says so`, text("detail-body").includes(words));
  }
  show((next) => {
    next.limits[0].used = 0.5;
    next.limits[0].rate = 5;
  });
  check("quota and course name what they count", text("detail-body").includes("quota: 5 units/s") && text("detail-body").includes("requests/s"));

  // The answer about a client comes when another one is open.
  const waiting = {};
  window.fetch = (path) => new Promise((done) => { waiting[path.split("%3A").pop()] = done; });
  const one = showClient("user_id:one");
  const other = showClient("user_id:other");
  waiting.one(answer({ detail: "this is of one" }, 503));
  await one;
  check("an answer about one client is not shown under another", text("detail-title") === "user_id:other" && !text("detail-body").includes("of one"));
  waiting.other(answer({ detail: "this is of other" }, 503));
  await other;
  check("its own is", text("detail-body").includes("this is of other"));
  document.getElementById("detail").close();

  // Where there is no stream, documents are read, and the stream is tried again.
  const sources = [];
  const intervals = [];
  window.EventSource = class {
    constructor() { sources.push(this); }
    close() { this.readyState = 2; }
  };
  window.EventSource.CLOSED = 2;
  window.setInterval = (each) => intervals.push(each);
  window.fetch = async () => answer(before);
  const closed = () => {
    sources.at(-1).readyState = 2;
    sources.at(-1).onerror();
  };
  follow();
  closed();
  await loading;
  const [tick] = intervals;
  for (let at = 0; at < 200; at += 1) {
    const known = sources.length;
    tick();
    await loading;
    if (sources.length > known) closed();
  }
  await loading;
  check("a page without a stream reads documents, and tries the stream again", sources.length === 14 && intervals.length === 1, `${sources.length} times`);
  sources.at(-1).onopen();
  check("once there is one, nothing is read any more", polling === null);

  // The token is needed again, the document cannot be shown, and all is well again.
  window.fetch = async () => answer({ detail: "a token" }, 401);
  await load();
  check("the page says that the token is needed again", text("health") === "Token needed" && document.getElementById("trouble").checkVisibility() && text("trouble-act") === "Give the token" && source === null, text("trouble-text"));
  window.fetch = async () => answer(before);
  await load();
  check("it is given", !document.getElementById("trouble").checkVisibility() && text("health") !== "Token needed", text("health"));
  console.error = () => {};
  show((next) => { delete next.health; });
  check("a document that cannot be shown is said to be such", text("health") === "Cannot be shown", text("trouble-text"));
  show(() => {});
  sessionStorage.setItem("tidegate-reload", String(Date.now()));
  take({ ...structuredClone(before), version: 2 });
  check("another version is said to be such", text("health") === "Other version" && text("trouble-act") === "Load the page again", text("trouble-text"));
  sessionStorage.removeItem("tidegate-reload");
  Object.assign(window, { fetch: real.fetch, EventSource: real.EventSource, setInterval: real.setInterval });
  console.error = real.error;
  return found;
}

/** The same for whoever runs checks; then the page loads itself again, because of a document of another version. */
module.exports = async function (page, check) {
  for (const one of await page.evaluate(given)) check(...one);
  const loaded = page.waitForNavigation({ timeout: 15_000 });
  await page.evaluate(() => { setTimeout(() => take({ version: 2 }), 0); });
  await loaded;
  await page.waitForSelector("#limits table", { timeout: 15_000 });
  check("a page of another version loads itself again", true);
};
