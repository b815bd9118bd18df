import { withoutComments } from './imports.ts'
import type { Sources } from './sources.ts'

/** The table of codes as the source has it. */
export type CodeTable = Readonly<Record<string, { readonly status: number; readonly meaning: string }>>

/** Compares the codes that are thrown, promised in the table, and documented; says what does not agree. */
export function findCodeGaps(sources: Sources, table: CodeTable, documentation: string): readonly string[] {
  const complaints: string[] = []
  const thrown = new Set<string>()
  for (const [path, source] of sources) {
    const made = /new SignalboxError\(\s*(?:'([^']*)'|([\w.]+ as ErrorCode))?/g
    for (const [, code, fromElsewhere] of withoutComments(source).matchAll(made)) {
      // One that crossed a wire, or came from another thread, was thrown where its code stands.
      if (fromElsewhere !== undefined) continue
      if (code === undefined) complaints.push(`${path}: a code must be written where it is thrown`)
      else thrown.add(code)
    }
  }
  const documented = decodeTable(documentation)
  for (const [code, { status, meaning }] of Object.entries(table)) {
    if (!thrown.has(code)) complaints.push(`${code} is in the table, but nothing throws it`)
    const row = documented.get(code)
    if (row === undefined) complaints.push(`${code} is in the table, but not in docs/errors.md`)
    else if (row.status !== String(status)) complaints.push(`${code} has another status in docs/errors.md`)
    else if (!row.meaning.startsWith(meaning))
      complaints.push(`${code} has another meaning in docs/errors.md`)
  }
  for (const code of thrown)
    if (!Object.hasOwn(table, code)) complaints.push(`${code} is thrown, but not in the table`)
  for (const code of documented.keys()) {
    if (!Object.hasOwn(table, code)) complaints.push(`${code} is documented, but not in the table`)
  }
  return complaints
}

/** The rows `| \`code\` | status | meaning |` of a Markdown page. */
function decodeTable(documentation: string): Map<string, { status: string; meaning: string }> {
  const rows = documentation.matchAll(/^\| `([a-z_]+)` \| ([^|]+?) \| ([^|]+?) \|/gm)
  return new Map(
    [...rows].map(([, code, status, meaning]) => [code!, { status: status!, meaning: meaning! }]),
  )
}
