import type { ReactNode } from 'react'
import type { Tone } from './state.tsx'

export interface BarProps {
  /** 0 to 1. */
  readonly share: number
  /** Says what it shows. */
  readonly label: string
  readonly tone?: Tone
}

/** A share of a whole. */
export function Bar({ share, label, tone = 'info' }: BarProps): ReactNode {
  const percent = Math.round(Math.min(1, Math.max(0, share)) * 100)
  return (
    // biome-ignore lint/a11y/useSemanticElements: browsers draw <meter> each in their own way
    <div
      className={`bar ${tone}`}
      role="meter"
      aria-label={label}
      aria-valuenow={percent}
      aria-valuemin={0}
      aria-valuemax={100}
      title={label}
    >
      <i style={{ inlineSize: `${percent}%` }} />
    </div>
  )
}

export interface SparklineProps {
  readonly values: readonly number[]
  readonly label: string
}

const width = 96
const height = 20

/** A small line without axes, for a cell of a table. */
export function Sparkline({ values, label }: SparklineProps): ReactNode {
  const high = Math.max(1, ...values)
  const step = width / Math.max(1, values.length - 1)
  const points = values.map((value, nth) => {
    const y = height - 1 - (value / high) * (height - 2)
    return `${(nth * step).toFixed(1)},${y.toFixed(1)}`
  })
  return (
    <svg className="sparkline" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      <polyline points={points.join(' ')} />
    </svg>
  )
}
