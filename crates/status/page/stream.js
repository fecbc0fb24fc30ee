// The documents that the status page shows. /status.json returns whole documents. The stream /events sends a document without series each
// second, and this script adds its values to the series of the last document.
"use strict";

const VERSION = 1; // of the documents that this page can read
const SECONDS = 300; // bound of a series
const MINUTE = 60; // seconds between whole documents, which have the values of minutes
const PATIENCE = 10_000; // longest wait for a whole document, in ms
const POLL = 2000; // pause between whole documents if there is no stream, in ms
const RETRY = 15; // polls after which the stream is tried again

let status = null; // the last document, with its series
let lastSeen = 0; // the time when the last document came, in ms
let lastWhole = 0; // the tick of the last whole document
let source = null; // the stream
let polling = null; // the timer that reads whole documents if there is no stream
let polls = 0;
let loading = null; // the promise of the whole document in transfer
let later = []; // documents of the stream that came during this transfer, at most MINUTE
let trouble = null; // the reason why the page shows no new document: { word, text, act }

const noSeries = () => ({ seconds: { admitted: [], refused: [], would_refuse: [] }, minutes: { admitted: [], refused: [], would_refuse: [] } });

/** Whether `next` is from the second after `before`, and from the same process. */
const follows = (next, before) => next.tick === before.tick + 1 && next.gateway.uptime_seconds >= before.gateway.uptime_seconds;

/** Appends the values of one second to a series. */
function extend(series, second) {
  if (!series) return;
  for (const [name, values] of Object.entries(series.seconds)) {
    values.push(second[name] || 0);
    if (values.length > SECONDS) values.shift();
  }
}

/** Moves the series of the previous document to a document of the stream, and extends them. A new limit begins with an empty series. */
function join(next, before) {
  next.requests.series = before.requests.series;
  extend(next.requests.series, next.requests.second);
  const known = new Map(before.limits.map((limit) => [limit.name, limit.series]));
  for (const limit of next.limits) {
    limit.series = known.get(limit.name) || noSeries();
    extend(limit.series, limit.second);
  }
  return next;
}

/** Shows a document. If the page cannot show it, shows the error. */
function accept(next) {
  status = next;
  lastSeen = Date.now();
  trouble = null;
  try {
    render();
  } catch (error) {
    console.error(error);
    complain({ word: "Cannot be shown", text: `This page cannot show what the gateway sends: ${error.message}.`, act: "Load the page again" });
  }
}

/** Shows the reason why there is no new document. */
function complain(of) {
  trouble = of;
  renderTrouble();
}

function stop() {
  if (source) source.close();
  source = null;
  clearInterval(polling);
  polling = null;
}

/** Returns the time when this page last reloaded itself. Without session storage, returns infinity, so that the page never reloads. */
function lastReload() {
  try {
    return Number(sessionStorage.getItem("tidegate-reload")) || 0;
  } catch {
    return Infinity;
  }
}

/** Whether this page can read a document. If not, loads the page of the gateway's version, unless the form has text. */
function readable(next) {
  if (next.version === VERSION) return true;
  stop();
  if (Date.now() - lastReload() > 60_000 && !isFilled()) {
    sessionStorage.setItem("tidegate-reload", String(Date.now()));
    location.reload();
  }
  complain({ word: "Other version", text: "The gateway has another version than this page.", act: "Load the page again" });
  return false;
}

function refused(code) {
  stop();
  const again = "The gateway needs the token again: it was restarted, its tokens have changed, or the session has ended.";
  const why = code === 401 ? again : "The gateway refuses this page.";
  complain({ word: code === 401 ? "Token needed" : "Refused", text: why, act: code === 401 ? "Give the token" : "Load the page again" });
}

/** Shows a document of the stream. Reads a whole document if a second is missing, and once a minute. */
function take(next) {
  if (!readable(next)) return;
  if (status && next.tick === status.tick && next.gateway.uptime_seconds >= status.gateway.uptime_seconds) return;
  const isNext = status !== null && follows(next, status);
  if (!isNext || Math.floor(next.tick / MINUTE) !== Math.floor(lastWhole / MINUTE)) load();
  if (loading && later.length < MINUTE) later.push(next);
  if (isNext) accept(join(next, status));
}

async function read() {
  const answer = await fetch("/status.json", { credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE) });
  if (answer.status === 401 || answer.status === 403) return refused(answer.status);
  if (!answer.ok) return;
  const next = await answer.json();
  if (!readable(next)) return;
  lastWhole = next.tick;
  // Adds the documents that the stream sent during the transfer.
  accept(later.reduce((before, one) => (follows(one, before) ? join(one, before) : before), next));
}

/** Reads the whole document, unless a transfer is under way. After a failure, the next document of the stream, or poll, tries again. */
function load() {
  if (loading) return loading;
  later = [];
  loading = read().catch(() => {}).finally(() => { loading = null; });
  return loading;
}

function follow() {
  if (source) source.close();
  const opened = new EventSource("/events");
  source = opened;
  opened.onopen = () => {
    clearInterval(polling);
    polling = null;
  };
  opened.onmessage = (event) => take(JSON.parse(event.data));
  opened.onerror = () => {
    // The browser reconnects after most errors. It closes the stream if too many pages are open or the token is needed.
    if (opened === source && opened.readyState === EventSource.CLOSED) poll();
  };
}

/** Reads whole documents from now on, until a stream opens. */
function poll() {
  if (polling) return;
  load();
  polling = setInterval(() => {
    polls += 1;
    if (polls % RETRY === 0) follow();
    else load();
  }, POLL);
}

document.addEventListener("visibilitychange", () => {
  stop();
  if (document.hidden) return;
  load();
  follow();
});
setInterval(() => { if (status) renderHead(); }, 2500);
load();
follow();
