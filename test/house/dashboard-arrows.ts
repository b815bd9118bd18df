import { posix } from 'node:path'
import { scanImports } from './imports.ts'
import type { Sources } from './sources.ts'

/**
 * The arrows of the dashboard. It reaches Signalbox by its client alone; inside, views are at the top and words at the
 * bottom:
 *
 *     views ──▶ kit ──▶ shell ──▶ words          a view may use parts of another, never the whole
 *        └──────▶ live ◀──┘
 */
const packages = ['react', 'react-dom/client', '@tanstack/react-query', 'uplot']
const client = 'src/http/client/index.ts'
const styles = /\.css$/

/** Every import that goes against an arrow, as a sentence. */
export function findTurnedDashboardArrows(sources: Sources): readonly string[] {
  const problems: string[] = []
  for (const [path, source] of sources) {
    for (const { specifier, typeOnly } of scanImports(source)) {
      const problem = judge(path, specifier, typeOnly)
      if (problem) problems.push(`${path} imports ${specifier ?? 'a computed name'}: ${problem}`)
    }
  }
  return problems
}

function judge(path: string, specifier: string | undefined, typeOnly: boolean): string | undefined {
  if (specifier === undefined) return 'what is imported must be readable in the source'
  if (!specifier.startsWith('.')) {
    if (packages.includes(specifier) || styles.test(specifier)) return undefined
    return 'the dashboard uses no such package'
  }
  const target = posix.join(posix.dirname(path), specifier)
  if (target === client || styles.test(target)) return undefined
  if (target.startsWith('src/http/contract/') && typeOnly) return undefined
  if (!target.startsWith('dashboard/'))
    return 'the dashboard reaches Signalbox through src/http/client/index.ts alone'
  const view = /^dashboard\/views\/(\w+)\/\1\.tsx$/.exec(target)?.[1]
  if (view !== undefined && path !== 'dashboard/shell/views.ts')
    return `the view "${view}" is shown by the shell alone; parts of it may be shared`
  if (moduleOf(path) === 'words' && !['words', 'shell'].includes(moduleOf(target)))
    return 'words know nothing of what says them'
  return undefined
}

function moduleOf(path: string): string {
  return path.split('/')[1]!
}
