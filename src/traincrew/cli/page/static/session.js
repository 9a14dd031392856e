// The session of this browser: the key is in the storage of this server's pages, and sent in a header with each request.

const KEY = "traincrew-session";
const LONGEST_RETRY = 5000;

/** An error of the server, with its message for people. */
export class ServerError extends Error {
  /**
   * @param {string} message
   * @param {number} status
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** What the server says of itself: the name of the cluster, and a command that creates a job on it. */
let about = { cluster: "", firstJob: "" };

/** The name of the cluster. */
export function cluster() {
  return about.cluster;
}

/** A command that creates a job on the cluster. */
export function firstJob() {
  return about.firstJob;
}

/**
 * Exchange the token of the address, if there is one, and remove it from the address.
 * @returns {Promise<void>}
 */
export async function begin() {
  const given = new URLSearchParams(location.hash.replace(/^#/, ""));
  const token = given.get("token");
  if (token !== null) await exchange(token, given.get("job"));
  if (about.cluster) return;
  try {
    about = JSON.parse(await text("/session"));
  } catch { /* what is shown next says why */ }
}

/**
 * @param {string} token
 * @param {string | null} job
 */
async function exchange(token, job) {
  history.replaceState(null, "", job ? `#/job/${job}` : "#/");
  const answer = await fetch("/session", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }),
  });
  const content = await answer.json();
  if (answer.ok) {
    localStorage.setItem(KEY, content.session);
    about = content;
    return;
  }
  const error = new ServerError(content.error, answer.status);
  // An address that was used already opens the page all the same, in the browser that has used it.
  const known = localStorage.getItem(KEY) !== null && await fetch("/session", { headers: authorization() });
  if (!known || !known.ok) throw error;
  about = await known.json();
}

function authorization() {
  return { Authorization: `Bearer ${localStorage.getItem(KEY) ?? ""}` };
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @param {string} [method]
 */
async function request(path, signal, method = "GET") {
  const answer = await fetch(path, { method, headers: authorization(), signal: signal ?? null });
  if (!answer.ok) {
    let text = answer.statusText;
    try { text = (await answer.json()).error ?? text; } catch { /* not JSON: a proxy in between */ }
    throw new ServerError(text, answer.status);
  }
  return answer;
}

/**
 * Return a text of the server.
 * @param {string} path
 */
export async function text(path) {
  return (await request(path)).text();
}

/**
 * Ask the server to do something.
 * @param {string} path
 */
export async function send(path) {
  await request(path, undefined, "POST");
}

/**
 * Read a stream of server-sent events until it is stopped; connect again when it breaks.
 * @param {string} path
 * @param {Record<string, (content: any) => void>} handlers by event; `begin` is called for each connection, `ended` when
 *   the cluster has ended, which is reported as well
 * @param {(problem: string) => void} report called with a problem, or with an empty text
 * @returns {() => void} stops it
 */
export function stream(path, handlers, report) {
  const stop = new AbortController();
  void (async () => {
    let wait = 250;
    while (!stop.signal.aborted) {
      try {
        const answer = await request(path, stop.signal);
        report("");
        handlers["begin"]?.(null);
        wait = 250;
        const ended = (/** @type {{text: string, at: number}} */ content) => {
          report(content.text);
          handlers["ended"]?.(content);
        };
        await read(/** @type {ReadableStream<Uint8Array>} */ (answer.body), { ...handlers, ended });
        report("The connection was closed. Trying again…");
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof ServerError && [401, 403, 404].includes(error.status)) {
          report(error.message);
          return;
        }
        const why = error instanceof ServerError ? error.message : "`traincrew ui` does not answer.";
        report(`${why} Trying again…`);
      }
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, LONGEST_RETRY);
    }
  })();
  return () => stop.abort();
}

/**
 * @param {ReadableStream<Uint8Array>} body
 * @param {Record<string, (content: any) => void>} handlers
 */
async function read(body, handlers) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const messages = rest.split("\n\n");
    rest = messages.pop() ?? "";
    for (const message of messages) {
      const match = /^event: (\w+)\ndata: (.*)$/s.exec(message);
      if (match) handlers[match[1] ?? ""]?.(JSON.parse(match[2] ?? "null"));
    }
  }
}
