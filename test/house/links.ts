import { dirname, join, normalize } from 'node:path'

/**
 * Links between the pages of the documentation: to existing files, and to existing headings. Addresses elsewhere are
 * not requested: a test that needs them would fail when they are away.
 */

/** Links without a target. `pages` are texts by their paths, `files` all existing paths, folders too. */
export function findBrokenLinks(
  pages: ReadonlyMap<string, string>,
  files: ReadonlySet<string>,
): readonly string[] {
  return [...pages.keys()].flatMap((page) => {
    const named = pages
      .get(page)!
      .matchAll(/`((?:src|test|examples|tools|bench|docs|dashboard)\/[\w./-]+\.\w+)`/g)
    return [
      ...deadLinksOf(page, pages, files),
      ...[...named]
        .filter(([, path]) => !files.has(path!))
        .map(([, path]) => `${page}: it names ${path}, which is not there`),
    ]
  })
}

/** The same for links only: a package names files that only the repository has. */
export function findDeadLinks(
  pages: ReadonlyMap<string, string>,
  files: ReadonlySet<string>,
): readonly string[] {
  return [...pages.keys()].flatMap((page) => deadLinksOf(page, pages, files))
}

function deadLinksOf(
  page: string,
  pages: ReadonlyMap<string, string>,
  files: ReadonlySet<string>,
): readonly string[] {
  return linksIn(pages.get(page)!).flatMap((link) => {
    const [path = '', anchor] = link.split('#')
    const target = path === '' ? page : normalize(join(dirname(page), decodeURIComponent(path)))
    const bare = target.replace(/\/$/, '')
    if (!files.has(bare)) return [`${page}: ${link} leads to no file`]
    if (anchor === undefined || !pages.has(bare)) return []
    return anchorsOf(pages.get(bare)!).has(decodeURIComponent(anchor))
      ? []
      : [`${page}: ${link} leads to no heading`]
  })
}

function linksIn(text: string): readonly string[] {
  const prose = withoutCode(text).replace(/`[^`\n]*`/g, '')
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link!)
  return links.filter((link) => !/^(https?|mailto):/.test(link))
}

/** As GitHub makes them from headings. */
function anchorsOf(text: string): ReadonlySet<string> {
  const counts = new Map<string, number>()
  const anchors = new Set<string>()
  for (const [, heading] of withoutCode(text).matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const slug = heading!
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .replace(/[`*]/g, '')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M} _-]/gu, '')
      .replaceAll(' ', '-')
    const count = counts.get(slug) ?? 0
    counts.set(slug, count + 1)
    anchors.add(count === 0 ? slug : `${slug}-${count}`)
  }
  return anchors
}

function withoutCode(text: string): string {
  return text.replace(/^(```+|~~~+)[^\n]*\n[\s\S]*?^\1[ \t]*$/gm, '')
}
