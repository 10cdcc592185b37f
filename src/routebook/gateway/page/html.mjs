// Elements from templates. Every value becomes a text node or a property: a name is never markup.
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
