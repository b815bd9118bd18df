import type { CaseReport } from './report.ts'

const headings = [
  'case',
  'unit',
  'signalbox',
  'peers',
  'to best peer',
  'limit',
  'to limit',
  'goal',
  'met',
] as const

/** The report as a table for people: medians, spreads in brackets, ratios above 1 are ahead. */
export function renderTable(reports: readonly CaseReport[]): string {
  const rows = reports.map(row)
  const widths = headings.map((heading, at) =>
    Math.max(heading.length, ...rows.map((cells) => cells[at]!.length)),
  )
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, at) => cell.padEnd(widths[at]!))
      .join('  ')
      .trimEnd()
  const notes = [
    ...reports.flatMap((report) => (report.reason ? [`${report.name}: ${report.reason}`] : [])),
    ...(reports.some((report) => report.constants)
      ? ['* a constant from elsewhere, not measured in this run']
      : []),
  ]
  return [line(headings), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line), ...notes].join(
    '\n',
  )
}

function row(report: CaseReport): string[] {
  const peers = Object.keys(report.peers).map(
    (name) => `${name} ${figure(report, name, report.peers[name]!)}`,
  )
  const constants = Object.entries(report.constants ?? {}).map(([name, text]) => `${name}* ${text}`)
  return [
    report.name,
    report.unit,
    figure(report, 'signalbox', report.signalbox),
    [...peers, ...constants].join(', ') || '-',
    times(report.ratioToBestPeer),
    figure(report, 'limit', report.limit),
    times(report.ratioToLimit),
    report.goal,
    report.met ? 'yes' : 'NO',
  ]
}

function figure(report: CaseReport, name: string, value: number | null): string {
  const spread = report.spread[name]
  if (value === null) return '-'
  return spread ? `${short(value)} [${short(spread[0])}-${short(spread[1])}]` : short(value)
}

function times(value: number | null): string {
  return value === null ? '-' : `${value.toFixed(2)} x`
}

function short(value: number): string {
  const size = Math.abs(value)
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2)
}
