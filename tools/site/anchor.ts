/** The anchor that GitHub makes from a heading, so that one link works there and on the site. */
export function anchorOf(heading: string): string {
  return heading
    .replace(/[`*]/g, '')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M} _-]/gu, '')
    .replaceAll(' ', '-')
}
