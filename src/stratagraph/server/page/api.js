/* Requests to the server. A token comes in the address's fragment, which no server sees, and is kept for the tab. */
let token = null;
let askForToken = null;

export function start(onUnauthorized) {
  askForToken = onUnauthorized;
  const given = /[#&]token=([^&]+)/.exec(location.hash);
  try {
    if (given) {
      sessionStorage.setItem("stratagraph-token", decodeURIComponent(given[1]));
      history.replaceState(null, "", location.pathname + "#ask");
    }
    token = sessionStorage.getItem("stratagraph-token");
  } catch (error) {
    token = given ? decodeURIComponent(given[1]) : null;
  }
}

export function useToken(value) {
  token = value;
  try { sessionStorage.setItem("stratagraph-token", value); } catch (error) { /* kept for this page only */ }
}

async function request(path, options = {}) {
  const headers = new Headers(options.headers);
  if (token) headers.set("authorization", `Bearer ${token}`);
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is it still running?");
  }
  if (answer.ok) return answer;
  if (answer.status === 401 && askForToken) askForToken();
  const told = await answer.json().catch(() => ({}));
  throw new Error(told.message || `The server said ${answer.status}`);
}

export async function get(path, parameters = {}, signal = undefined) {
  const known = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(known).toString();
  return (await request(query ? `${path}?${query}` : path, { signal })).json();
}

const asJson = (body, signal) => ({
  method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" }, signal,
});

export async function post(path, body) {
  return (await request(path, asJson(body))).json();
}

export async function upload(file, name) {
  const path = `api/files/${name.split("/").map(encodeURIComponent).join("/")}`;
  return (await request(path, { method: "PUT", body: file })).json();
}

/* Server-sent events of a POST: `heard(event, data)` for each. */
export async function events(path, body, heard, signal) {
  const answer = await request(path, asJson(body, signal));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    waiting += value;
    const blocks = waiting.split("\n\n");
    waiting = blocks.pop();
    for (const block of blocks) {
      // Lines end with \n alone: a text may hold U+2028, which ends a line for regular expressions.
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: ([^]*)/, 2)));
      if (fields.event && fields.data) heard(fields.event, JSON.parse(fields.data));
    }
  }
}
