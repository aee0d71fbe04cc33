// The projects that studies belong to. Where there is only the default one, pages do not speak of projects.

import { get } from "./api.js";
import { h, named } from "./dom.js";
import { at } from "./root.js";

export const DEFAULT = "default";

/** Those that the visitor may see, with the visitor's role in each; none where there is only the default one. */
export async function findProjects() {
  const found = await get("/api/projects");
  return found.some(({ name }) => name !== DEFAULT) ? found : [];
}

/** The project that the page's address names; empty if it names none. */
export const projectHere = () => new URLSearchParams(location.search).get("project") ?? "";

/** A page about one project, or all, for bookmarks. */
export const inProject = (path, project) => (project ? `${path}?project=${encodeURIComponent(project)}` : path);

/** A list to choose one from, in which `chosen` is chosen if it is there, else an empty name, which reads as `empty`. */
export function projectChoice(names, chosen, empty, attributes = {}) {
  const shown = names.includes(chosen) || names.length < 2 ? names : [...new Set(["", ...names])];
  const control = h("select", attributes, shown.map((name) => h("option", { value: name }, name || empty)));
  if (names.includes(chosen)) control.value = chosen;
  return control;
}

/** The way from a study to the others of its project. */
export function projectCrumb(project) {
  return project === DEFAULT ? null : [h("a", { href: inProject(at("/"), project) }, named(project)), " / "];
}
