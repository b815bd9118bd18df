/**
 * Writes the pages of the site into a folder. The documents stay as they are in the repository, with two changes: a README is the index of
 * its folder, and a link to a source file or a folder leads to a page that shows it. So the site has no link that leaves it.
 */
import { cpSync, globSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, extname, join, normalize, posix, relative } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** Writes all pages and images below `folder`. */
export function writePages(folder: string): void {
  const pages = new Set(globSync(['*.md', 'docs/**/*.md', 'dashboard/README.md'], { cwd: root }))
  const shown = new Set<string>()
  for (const page of pages) {
    const text = readFileSync(join(root, page), 'utf8')
    write(join(folder, placeOf(page)), withSiteLinks(text, page, pages, shown))
  }
  for (const path of shown) write(join(folder, `${sourceOf(path)}.md`), showSource(path, shown))
  cpSync(join(root, 'docs/images'), join(folder, 'docs/images'), { recursive: true })
}

/** Where a page is on the site. */
function placeOf(page: string): string {
  return page.replace(/README\.md$/, 'index.md')
}

function sourceOf(path: string): string {
  return posix.join('source', path)
}

/** Leads links to other pages to their places, and all other links to a page that shows the file. */
function withSiteLinks(text: string, page: string, pages: ReadonlySet<string>, shown: Set<string>): string {
  const parts = text.split(/(^```[\s\S]*?^```$|`[^`\n]*`)/m)
  return parts.map((part) => (part.startsWith('`') ? part : part.replace(/\]\(([^)\s]+)\)/g, lead))).join('')

  function lead(whole: string, link: string): string {
    if (/^(https?:|mailto:|#)/.test(link)) return whole
    const [path = '', anchor] = link.split('#')
    const target = normalize(join(dirname(page), decodeURIComponent(path))).replace(/\/$/, '')
    if (extname(target) === '.png') return whole
    if (!pages.has(target) && target !== '.') shown.add(target)
    const place = pages.has(target) ? placeOf(target) : `${sourceOf(target)}.md`
    const way = relative(dirname(page), place)
    return `](${encodeURI(way.startsWith('.') ? way : `./${way}`)}${anchor === undefined ? '' : `#${anchor}`})`
  }
}

/** A page that shows a source file, or lists a folder. */
function showSource(path: string, shown: Set<string>): string {
  const place = join(root, path)
  if (statSync(place).isDirectory()) {
    const names = readdirSync(place).filter((name) => statSync(join(place, name)).isFile())
    for (const name of names) if (extname(name) !== '.md') shown.add(posix.join(path, name))
    const base = posix.basename(path)
    const items = names
      .filter((name) => extname(name) !== '.md')
      .map((name) => `- [${name}](./${base}/${name}.md)`)
    return `# ${path}\n\n${items.join('\n')}\n`
  }
  const language = languages[extname(path)] ?? 'txt'
  return `# ${path}\n\n\`\`\`\`${language}\n${readFileSync(place, 'utf8')}\n\`\`\`\`\n`
}

const languages: Readonly<Record<string, string>> = {
  '.ts': 'ts',
  '.py': 'python',
  '.sh': 'sh',
  '.yaml': 'yaml',
  '.json': 'json',
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}
