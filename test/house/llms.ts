/**
 * `llms.txt` (llmstxt.org) and the index of the documentation: a page that is in neither cannot be found. The form is
 * one title, a summary as a quotation, and then sections of links, each with a short description.
 */

/**
 * The mistakes of the two indexes. `pages` are all pages of docs/, from the repository's folder; `files` all existing
 * paths.
 */
export function findIndexGaps(
  llms: string,
  index: string,
  pages: readonly string[],
  files: ReadonlySet<string>,
): readonly string[] {
  const problems: string[] = []
  if (!/^# .+\n\n> .+\n/.test(llms))
    problems.push('llms.txt: it must begin with a title and a summary behind ">"')
  const links = new Map<string, number>()
  for (const line of llms
    .split(/^## .*$/m)
    .slice(1)
    .join('\n')
    .split('\n')) {
    if (line === '') continue
    const path = /^- \[[^\]]+\]\(([^)]+)\): \S/.exec(line)?.[1]
    if (path === undefined) problems.push(`llms.txt: "${line}" is no link with a word on what is behind it`)
    else links.set(path, (links.get(path) ?? 0) + 1)
  }
  for (const [path, count] of links) {
    if (!files.has(path)) problems.push(`llms.txt: ${path} is not there`)
    if (count > 1) problems.push(`llms.txt: ${path} is listed ${count} times`)
  }
  for (const page of pages) {
    if (!links.has(page)) problems.push(`llms.txt: ${page} is not listed`)
    const fromDocs = page.replace(/^docs\//, '')
    if (fromDocs !== 'README.md' && !index.includes(`](${fromDocs})`))
      problems.push(`docs/README.md: ${fromDocs} is not listed`)
  }
  return problems
}
