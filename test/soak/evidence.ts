/**
 * docs/evidence.md: the last result of each campaign that was run. A table with one row a campaign, and below it what a campaign
 * wants kept. The file is read back and written whole, so rows of campaigns that did not run stay as they were.
 */
export interface Finding {
  readonly campaign: string
  readonly module: string
  /** `passed`, or what went wrong. */
  readonly result: string
  readonly counts: Readonly<Record<string, number>>
  readonly seed: number
  readonly durationMs: number
  readonly node: string
  readonly signalbox: string
  /** The day it ended, as YYYY-MM-DD. */
  readonly date: string
  readonly notes: readonly string[]
}

const opening = `# Evidence

The last result of each campaign of \`npm run soak\` that was run, written by it; one that is not here was not. A seed in the table is that of the first piece;
the pieces after it have the numbers that follow. \`npm run soak -- CAMPAIGN --seed N\` runs it again.

| Campaign | Module | Result | Counts | Seed | Took | Node | Signalbox | Date |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
`

/** The file with this finding in the place of the campaign's earlier one. */
export function withFinding(text: string, finding: Finding): string {
  const { rows, notes } = decode(text)
  rows.set(finding.campaign, row(finding))
  if (finding.notes.length > 0) notes.set(finding.campaign, finding.notes.join('\n'))
  else notes.delete(finding.campaign)
  const sections = [...notes].map(([campaign, lines]) => `\n## ${campaign}\n\n${lines}\n`)
  return `${opening}${[...rows.values()].join('\n')}\n${sections.join('')}`
}

function decode(text: string): { rows: Map<string, string>; notes: Map<string, string> } {
  const [table = '', ...sections] = text.split(/^## /m)
  const rows = new Map<string, string>()
  for (const line of table.split('\n')) {
    const campaign = /^\| ([a-z][\w-]*) \|/.exec(line)?.[1]
    if (campaign) rows.set(campaign, line)
  }
  const notes = new Map<string, string>()
  for (const section of sections) {
    const end = section.indexOf('\n')
    notes.set(section.slice(0, end), section.slice(end).trim())
  }
  return { rows, notes }
}

function row(finding: Finding): string {
  const counts = Object.entries(finding.counts).map(
    ([name, count]) => `${count.toLocaleString('en')} ${name}`,
  )
  const cells = [
    finding.campaign,
    finding.module,
    finding.result,
    counts.join(', '),
    String(finding.seed),
    duration(finding.durationMs),
    finding.node,
    finding.signalbox,
    finding.date,
  ]
  // A message may contain anything; a bar or a line break would end the cell.
  return `| ${cells.map((cell) => cell.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|')).join(' | ')} |`
}

function duration(ms: number): string {
  return ms < 120_000 ? `${Math.round(ms / 1_000)} s` : `${Math.round(ms / 60_000)} min`
}
