import type { CodeTable } from '../../tools/error-docs.ts'
import { withoutComments } from './imports.ts'
import type { Sources } from './sources.ts'

/** Compares the codes that are thrown with the table; says what does not agree. */
export function findCodeGaps(sources: Sources, table: CodeTable): readonly string[] {
  const complaints: string[] = []
  const thrown = new Set<string>()
  for (const [path, source] of sources) {
    const made = /new SignalboxError\(\s*(?:'([^']*)'|([\w.]+ as ErrorCode))?/g
    for (const [, code, fromElsewhere] of withoutComments(source).matchAll(made)) {
      // An error that crossed a wire, or came from another thread, was thrown where its code stands.
      if (fromElsewhere !== undefined) continue
      if (code === undefined) complaints.push(`${path}: a code must be written where it is thrown`)
      else thrown.add(code)
    }
  }
  for (const code of Object.keys(table))
    if (!thrown.has(code)) complaints.push(`${code} is in the table, but nothing throws it`)
  for (const code of thrown)
    if (!Object.hasOwn(table, code)) complaints.push(`${code} is thrown, but not in the table`)
  return complaints
}
