/**
 * Part of `npm run docs`: writes the table of codes in docs/errors.md from src/core/errors.ts: the status and the meaning
 * from the table there, and what to do from the comment above each code. test/house/errors.test.ts fails while the page
 * and the source differ.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCodes } from '../src/core/errors.ts'

/** The codes as the source has them. */
export type CodeTable = Readonly<Record<string, { readonly status: number; readonly meaning: string }>>

const head = '| Code | Status | Meaning |\n|---|---|---|\n'

/** The page with the table of codes as `source` (the text of src/core/errors.ts) has it. */
export function withCodes(page: string, codes: CodeTable, source: string): string {
  const rows = Object.entries(codes).map(
    ([code, { status, meaning }]) => `| \`${code}\` | ${status} | ${meaning} ${adviceOf(code, source)} |\n`,
  )
  const begin = page.indexOf(head)
  if (begin < 0) throw new Error('docs/errors.md has no table of codes.')
  const end = page.indexOf('\n\n', begin)
  return page.slice(0, begin) + head + rows.join('') + page.slice(end + 1)
}

/** The comment right above the code, as one line. */
function adviceOf(code: string, source: string): string {
  const [, comment] = new RegExp(`/\\*\\*((?:(?!\\*/)[\\s\\S])*)\\*/\\s+${code}: \\{`).exec(source) ?? []
  if (comment === undefined) throw new Error(`${code} has no comment that says what to do.`)
  return comment.replaceAll(/\s+\*?\s*/g, ' ').trim()
}

if (import.meta.main) {
  const root = join(import.meta.dirname, '..')
  const path = join(root, 'docs', 'errors.md')
  const source = readFileSync(join(root, 'src', 'core', 'errors.ts'), 'utf8')
  writeFileSync(path, withCodes(readFileSync(path, 'utf8'), errorCodes, source))
  console.log(`docs/errors.md: ${Object.keys(errorCodes).length} codes`)
}
