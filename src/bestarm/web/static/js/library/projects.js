// The projects that studies belong to. Where there is only the default one, pages do not speak of projects.

import { get } from "./api.js";
import { h, named } from "./dom.js";
import { at } from "./root.js";

const DEFAULT = "default";

/** Those that the visitor may see, with the visitor's role in each; none where there is only the default one. */
export async function findProjects() {
  const found = await get("/api/projects");
  return found.some(({ name }) => name !== DEFAULT) ? found : [];
}

/** The project that the page's address names; empty if it names none. */
export const projectHere = () => new URLSearchParams(location.search).get("project") ?? "";

/** A page about one project, or all, for bookmarks. */
export const inProject = (path, project) => (project ? `${path}?project=${encodeURIComponent(project)}` : path);

/** A list to choose one from, in which `chosen` is chosen if it is there. An empty name stands for all of them. */
export function projectChoice(names, chosen, attributes = {}) {
  const control = h("select", attributes, names.map((name) => h("option", { value: name }, name || "All projects")));
  if (names.includes(chosen)) control.value = chosen;
  return control;
}

/** The way from a study to the others of its project. */
export function projectCrumb(project) {
  return project === DEFAULT ? null : [h("a", { href: inProject(at("/"), project) }, named(project)), " / "];
}
