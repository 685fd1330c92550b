/* Markdown as elements. Every element holds text only, so nothing in a document can act as markup of the page. */
import { h } from "./dom.js";

const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|__(.+?)__|!?\[([^\]]*)\]\((?:[^()\s]|\([^()]*\))*(?:\s+"[^"]*")?\)/gsu;

/* The blocks of a text: headings, lists, code, quotes, tables, paragraphs. */
export function markdown(text) {
  const made = [];
  const lines = text.split("\n");
  let at = 0;
  const take = (test) => { const from = at; while (at < lines.length && test(lines[at])) at += 1; return lines.slice(from, at); };
  while (at < lines.length) {
    const line = lines[at];
    const fence = line.match(/^\s*(```+|~~~+)/u)?.[1];
    if (fence) {
      at += 1;
      const code = take((each) => !each.trimStart().startsWith(fence));
      at += 1;
      made.push(h("pre", {}, h("code", {}, code.join("\n"))));
    } else if (/^#{1,6}\s/u.test(line)) {
      made.push(h("p", { class: "heading", dir: "auto" }, ...inline(line.replace(/^#+\s+|\s+#+\s*$/gu, ""))));
      at += 1;
    } else if (/^\s*\|.*\|\s*$/u.test(line)) {
      made.push(h("pre", { class: "table" }, take((each) => /^\s*\|.*\|\s*$/u.test(each)).join("\n")));
    } else if (item(line)) {
      made.push(h("ul", {}, ...take(item).map((each) => h("li", { dir: "auto" }, ...inline(each.replace(ITEM, ""))))));
    } else if (!line.trim()) {
      at += 1;
    } else {
      const block = take((each) => each.trim() && !/^#{1,6}\s|^\s*(?:```|~~~)/u.test(each) && !item(each));
      made.push(h("p", { dir: "auto" }, ...inline(block.map((each) => each.replace(/^\s*>\s?/u, "")).join("\n"))));
    }
  }
  return made;
}

const ITEM = /^\s*(?:[-*+]|\d{1,3}[.)])\s+/u;
const item = (line) => ITEM.test(line);

function inline(text) {
  const made = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    made.push(text.slice(at, match.index));
    if (match[2]) made.push(h("code", {}, match[2]));
    else if (match[3] || match[4]) made.push(h("strong", {}, match[3] || match[4]));
    else made.push(match[5]);
    at = match.index + match[0].length;
  }
  made.push(text.slice(at));
  return made.filter(Boolean);
}

/* A pattern of the words that begin with one of some stems and have at most three letters more. */
export function wordsOf(stems) {
  const spaced = stems.filter((stem) => /^[\w\u00c0-\u024f\u0370-\u05ff]/u.test(stem)), pairs = stems.filter((stem) => !spaced.includes(stem));
  const any = (words) => words.map((word) => word.replace(/[^\p{L}\p{N}]/gu, "")).join("|");
  const patterns = [spaced.length && `(?<![\\p{L}\\p{N}])(?:${any(spaced)})\\p{L}{0,3}(?![\\p{L}\\p{N}])`, pairs.length && any(pairs)];
  return new RegExp(patterns.filter(Boolean).join("|") || "(?!)", "giu");
}

/* Mark what a pattern finds inside an element. */
export function markWords(element, pattern) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  for (const node of nodes) {
    const made = [];
    let at = 0;
    for (const match of node.data.matchAll(pattern)) {
      made.push(node.data.slice(at, match.index), h("mark", {}, match[0]));
      at = match.index + match[0].length;
    }
    if (at) node.replaceWith(...made, node.data.slice(at));
  }
}

/* Mark a sentence inside an element, whatever white space and marks of Markdown stand in it. Returns the first mark. */
export function highlight(element, sentence) {
  const plain = (character) => !/[\s*_`#>|-]/u.test(character);
  const wanted = [...sentence].filter(plain).join("");
  if (wanted.length < 4) return null;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const places = [];
  let letters = "";
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (let at = 0; at < node.data.length; at += 1) {
      if (plain(node.data[at])) { letters += node.data[at]; places.push([node, at]); }
    }
  }
  const from = letters.indexOf(wanted);
  if (from < 0) return null;
  const spans = new Map();
  for (const [node, at] of places.slice(from, from + wanted.length)) {
    const span = spans.get(node) || [at, at];
    spans.set(node, [span[0], at]);
  }
  let first = null;
  for (const [node, [start, end]] of spans) {
    const range = document.createRange();
    range.setStart(node, start);
    range.setEnd(node, end + 1);
    const mark = h("mark", {});
    range.surroundContents(mark);
    first ||= mark;
  }
  return first;
}
