/* Text of a run becomes text nodes, and nothing else. What steers a terminal or turns the
   reading direction is written out, so that what is shown is what is there. */

const COLOUR_CODES = /\u001b\[[0-9;:]*m/g;
const ODD =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\p{Cs}]|(?<![\p{So}\p{Sk}0-9#*])\ufe0f|(?<![\p{So}\p{Sk}\ufe0f])\u200d|\u200d(?![\p{So}\p{Sk}])/gu;

function str(value) {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return "";
  try {
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  } catch {
    return "…";
  }
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function num(value) {
  return isNumber(value) ? value : 0;
}

function oddName(char) {
  const code = char.codePointAt(0);
  if (code < 32) return String.fromCharCode(0x2400 + code);
  return "U+" + code.toString(16).toUpperCase().padStart(4, "0");
}

/* A string without anything invisible, for places that take strings only (title, tooltip). */
function plain(text) {
  return str(text)
    .replace(COLOUR_CODES, "")
    .replace(ODD, (char) => (char === "\r" ? "" : oddName(char)));
}

/* The nodes for a text exactly as it is: odd characters are shown by name. */
function exact(text) {
  ODD.lastIndex = 0;
  if (!ODD.test(text)) return [document.createTextNode(text)];
  const nodes = [];
  let from = 0;
  ODD.lastIndex = 0;
  for (let found = ODD.exec(text); found; found = ODD.exec(text)) {
    if (found.index > from) nodes.push(document.createTextNode(text.slice(from, found.index)));
    const mark = document.createElement("span");
    mark.className = "odd";
    mark.textContent = oddName(found[0]);
    nodes.push(mark);
    from = found.index + found[0].length;
  }
  if (from < text.length) nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

/* The nodes for a text to be read: colour codes of terminals are left out. */
function content(text) {
  return exact(str(text).replace(COLOUR_CODES, "").replace(/\r\n/g, "\n"));
}

/* The nodes for a name: line breaks and tabs are odd in one. */
function named(text) {
  return str(text)
    .split(/([\n\t])/)
    .flatMap((part) => (part === "\n" || part === "\t" ? [h("span.odd", {}, oddName(part))] : exact(part)));
}

/* An element. Strings among the children are content of a run as far as this page is concerned. */
function h(tag, properties, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties || {})) {
    if (key === "title") element.title = plain(value);
    else if (key === "click") element.addEventListener("click", value);
    else if (key === "role" || key.startsWith("aria-") || key.startsWith("data-")) element.setAttribute(key, value);
    else element[key] = value;
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) element.append(child);
    else element.append(...content(child));
  }
}

function at(id) {
  return document.getElementById(id);
}

function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/* Where a long text is cut until someone asks for all of it; its length where little would be left over. */
function cutAt(text, lines, characters) {
  let place = -1;
  for (let line = 0; line < lines; line++) {
    place = text.indexOf("\n", place + 1);
    if (place < 0) {
      place = text.length;
      break;
    }
  }
  place = Math.min(place, characters);
  const left = text.length - place;
  return left < 600 && text.slice(place).split("\n").length <= 8 ? text.length : place;
}
