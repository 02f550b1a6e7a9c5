//! Correction for multiple comparisons: adjusted p values, and the matching level of each interval.

use iodyno_stats::{benjamini_hochberg, benjamini_hochberg_levels, holm, holm_levels};

use super::metrics::Role;

/// Thresholds of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Level {
    /// Adjusted p; `None` if there is no p.
    pub(super) adjusted_p: Option<f64>,
    /// The level of its interval.
    pub(super) level: f64,
    /// 1 − level: the threshold for the unadjusted p.
    pub(super) share: f64,
}

/// The level of each cell, by the purpose of its row and its p: Holm over the primaries, Benjamini–Hochberg over the
/// exploratory ones, no correction for the rows of the noise floor.
pub(super) fn levels(cells: &[(Role, Option<f64>)], alpha: f64) -> Vec<Level> {
    let mut levels = vec![
        Level {
            adjusted_p: None,
            level: 1.0 - alpha,
            share: alpha,
        };
        cells.len()
    ];
    for role in [Role::Primary, Role::Exploratory, Role::Floor] {
        let (places, p_values): (Vec<usize>, Vec<f64>) = cells
            .iter()
            .enumerate()
            .filter(|(_, (of, _))| *of == role)
            .filter_map(|(place, (_, p))| Some((place, (*p)?)))
            .unzip();
        let adjusted = match role {
            Role::Primary => holm(&p_values).and_then(|p| Ok((p, holm_levels(&p_values, alpha)?))),
            Role::Exploratory => benjamini_hochberg(&p_values)
                .and_then(|p| Ok((p, benjamini_hochberg_levels(&p_values, alpha)?))),
            Role::Floor => Ok((p_values.clone(), vec![1.0 - alpha; p_values.len()])),
        };
        // Fails only without p values.
        let Ok((adjusted, own)) = adjusted else {
            continue;
        };
        for ((place, adjusted), level) in places.into_iter().zip(adjusted).zip(own) {
            levels[place] = Level {
                adjusted_p: Some(adjusted),
                level,
                share: 1.0 - level,
            };
        }
    }
    levels
}
